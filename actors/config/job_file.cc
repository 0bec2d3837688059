#include "actors/config/job_file.h"

#include <toml++/toml.h>

#include <charconv>
#include <limits>
#include <set>
#include <sstream>

#include "actors/config/toml_bounds.h"
#include "proto/base/text_file.h"

namespace es::actors {
namespace {

// Reads the keys of one TOML table into fields; remembers the first error and the keys it knows.
class Section {
 public:
  Section(const toml::table& table, std::string where, std::string prefix)
      : table_(table), where_(std::move(where)), prefix_(std::move(prefix)) {}

  void read(const char* key, std::string& out) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value_exact<std::string>())
        out = *value;
      else
        fail(key, "a string");
    }
  }
  void read(const char* key, bool& out) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value_exact<bool>())
        out = *value;
      else
        fail(key, "true or false");
    }
  }
  void read(const char* key, double& out) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value<double>(); value && node->is_number())
        out = *value;
      else
        fail(key, "a number");
    }
  }
  template <class Integer>
  requires std::unsigned_integral<Integer>
  void read(const char* key, Integer& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < 0 ||
        static_cast<std::uint64_t>(*value) > std::numeric_limits<Integer>::max()) {
      fail(key, "a whole number from 0 to " + std::to_string(std::min<std::uint64_t>(
                                                  std::numeric_limits<Integer>::max(),
                                                  std::numeric_limits<std::int64_t>::max())));
      return;
    }
    out = static_cast<Integer>(*value);
  }
  void read(const char* key, int& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value != static_cast<int>(*value)) return fail(key, "a whole number");
    out = static_cast<int>(*value);
  }
  void read(const char* key, std::vector<DeviceType>& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) return fail(key, "a list of device types");
    for (const toml::node& item : *array) {
      const auto name = item.value_exact<std::string>();
      if (!name) return fail(key, "a list of device types");
      out.push_back({*name});
    }
  }
  // Reads text and hands it to a parser that returns a Result.
  template <class T, class Parse>
  void read_parsed(const char* key, T& out, Parse&& parse) {
    std::string text;
    if (find(key) == nullptr) return;
    read(key, text);
    if (error_) return;
    auto parsed = parse(text);
    if (parsed.ok())
      out = *std::move(parsed);
    else
      error_ = usage_error(where_ + ": " + parsed.error().message);
  }
  template <class Read>
  void section(const char* key, Read&& read_fields) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (!node->is_table()) return fail(key, "a table [" + std::string(key) + "]");
    Section inner(*node->as_table(), where_, prefix_ + key + ".");
    read_fields(inner);
    inner.reject_unknown();
    if (!error_) error_ = inner.error_;
  }
  void reject_unknown() {
    for (const auto& [key, value] : table_) {
      const std::string name(key.str());
      if (known_.contains(name) || error_) continue;
      std::string list;
      for (const std::string& k : known_) list += (list.empty() ? "" : ", ") + k;
      error_ = usage_error(where_ + ": unknown key " + prefix_ + name + " (line " +
                           std::to_string(value.source().begin.line) + "); allowed here: " + list);
    }
  }
  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  const toml::node* find(const char* key) {
    known_.insert(key);
    return table_.get(key);
  }
  void fail(const char* key, const std::string& allowed) {
    if (error_) return;
    std::ostringstream value;
    value << toml::node_view<const toml::node>(table_.get(key));
    error_ = usage_error(where_ + ": " + prefix_ + key + " = " + value.str() + ": allowed is " +
                         allowed);
  }

  const toml::table& table_;
  std::string where_, prefix_;
  std::set<std::string> known_;
  std::optional<Error> error_;
};

void read_top(Section& s, JobSpec& spec) {
  s.read("name", spec.name);
  s.read("max_p", spec.max_p);
  s.read("batch_size", spec.batch_size);
  s.read("steps", spec.steps);
  s.read("epochs", spec.epochs);
  s.read("seed", spec.seed);
  s.read("eval_every", spec.eval_every);
  s.read_parsed("level", spec.level, parse_level);
  s.read("auto_cost", spec.auto_cost);
  s.read("tf32", spec.tf32);
  s.read_parsed("stages", spec.stages, parse_stages);
}

void read_data(Section& t, DataSpec& data) {
  t.read("kind", data.kind);
  t.read("path", data.path);
  t.read("height", data.height);
  t.read("width", data.width);
  t.read("channels", data.channels);
  t.read("samples", data.samples);
  t.read("eval_samples", data.eval_samples);
  t.read("normalise", data.normalise);
  t.read("crop_padding", data.crop_padding);
  t.read("flip", data.flip);
  t.read("random_resized_crop", data.random_resized_crop);
  t.read("users", data.users);
  t.read("items", data.items);
  t.read("negatives", data.negatives);
  t.read("tokens", data.tokens);
  t.read("vocabulary", data.vocabulary);
  t.read("vocabulary_file", data.vocabulary_file);
  t.read("boxes", data.boxes);
}

void read_optimizer(Section& t, OptimizerSpec& optimizer) {
  t.read("kind", optimizer.kind);
  t.read("learning_rate", optimizer.learning_rate);
  t.read("momentum", optimizer.momentum);
  t.read("nesterov", optimizer.nesterov);
  t.read("beta1", optimizer.beta1);
  t.read("beta2", optimizer.beta2);
  t.read("epsilon", optimizer.epsilon);
  t.read("weight_decay", optimizer.weight_decay);
  t.read("clip_norm", optimizer.clip_norm);
}

void read_sections(Section& s, JobSpec& spec) {
  s.section("model", [&](Section& t) {
    t.read("name", spec.model.name);
    t.read("size", spec.model.size);
    t.read("width", spec.model.width);
    t.read("classes", spec.model.classes);
    t.read("dropout", spec.model.dropout);
    t.read("weights", spec.model.weights);
    t.read("weights_digest", spec.model.weights_digest);
  });
  s.section("data", [&](Section& t) { read_data(t, spec.data); });
  s.section("optimizer", [&](Section& t) { read_optimizer(t, spec.optimizer); });
  s.section("schedule", [&](Section& t) {
    t.read("kind", spec.schedule.kind);
    t.read("step_size", spec.schedule.step_size);
    t.read("gamma", spec.schedule.gamma);
    t.read("warmup_steps", spec.schedule.warmup_steps);
  });
  s.section("resources", [&](Section& t) {
    t.read("min_devices", spec.resources.min_devices);
    t.read("max_devices", spec.resources.max_devices);
    t.read("threads", spec.resources.threads);
    t.read("device_types", spec.resources.device_types);
    t.read("tenant", spec.resources.tenant);
    t.read("priority", spec.resources.priority);
    t.read("deadline_seconds", spec.resources.deadline_seconds);
  });
  s.section("audit", [&](Section& t) { t.read("every_steps", spec.audit.every_steps); });
  s.section("checkpoint", [&](Section& t) {
    t.read("every_steps", spec.checkpoint.every_steps);
    t.read("directory", spec.checkpoint.directory);
    t.read("keep", spec.checkpoint.keep);
  });
}

// The shortest decimal text that reads back as the same double, always with a point or exponent.
std::string number(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string out(text, end);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// One line each.
template <class Integer>
requires std::unsigned_integral<Integer> std::string value_text(Integer value) {
  return std::to_string(value);
}
std::string value_text(int value) {
  return std::to_string(value);
}
std::string value_text(bool value) {
  return value ? "true" : "false";
}
std::string value_text(double value) {
  return number(value);
}
std::string value_text(const std::string& value) {
  return quoted(value);
}

template <class Value>
std::string line(const char* key, const Value& value) {
  return std::string(key) + " = " + value_text(value) + "\n";
}

// A new key is left out where it says nothing: ledger files hold digests of such texts.
std::string top_toml(const JobSpec& s) {
  return line("name", s.name) + line("max_p", s.max_p) + line("batch_size", s.batch_size) +
         line("steps", s.steps) + line("epochs", s.epochs) + line("seed", s.seed) +
         line("level", std::string(level_name(s.level))) + line("auto_cost", s.auto_cost) +
         (s.tf32 ? line("tf32", true) : "") + line("eval_every", s.eval_every) +
         (s.stages.empty() ? "" : line("stages", stages_text(s.stages)));
}

std::string model_toml(const ModelSpec& m) {
  return "\n[model]\n" + line("name", m.name) + line("size", m.size) + line("width", m.width) +
         line("classes", m.classes) + line("dropout", m.dropout) + line("weights", m.weights) +
         line("weights_digest", m.weights_digest);
}

std::string data_toml(const DataSpec& d) {
  return "\n[data]\n" + line("kind", d.kind) + line("path", d.path) + line("height", d.height) +
         line("width", d.width) + line("channels", d.channels) + line("samples", d.samples) +
         line("eval_samples", d.eval_samples) + line("normalise", d.normalise) +
         line("crop_padding", d.crop_padding) + line("flip", d.flip) +
         line("random_resized_crop", d.random_resized_crop) + line("users", d.users) +
         line("items", d.items) + line("negatives", d.negatives) + line("tokens", d.tokens) +
         line("vocabulary", d.vocabulary) + line("vocabulary_file", d.vocabulary_file) +
         line("boxes", d.boxes);
}

std::string optimizer_toml(const OptimizerSpec& o) {
  return "\n[optimizer]\n" + line("kind", o.kind) + line("learning_rate", o.learning_rate) +
         line("momentum", o.momentum) + line("nesterov", o.nesterov) + line("beta1", o.beta1) +
         line("beta2", o.beta2) + line("epsilon", o.epsilon) +
         line("weight_decay", o.weight_decay) + line("clip_norm", o.clip_norm);
}

std::string schedule_toml(const ScheduleSpec& s) {
  return "\n[schedule]\n" + line("kind", s.kind) + line("step_size", s.step_size) +
         line("gamma", s.gamma) + line("warmup_steps", s.warmup_steps);
}

std::string resources_toml(const ResourceSpec& r) {
  std::string types;
  for (const DeviceType& t : r.device_types) types += (types.empty() ? "" : ", ") + quoted(t.name);
  return "\n[resources]\n" + line("min_devices", r.min_devices) +
         line("max_devices", r.max_devices) + line("threads", r.threads) + "device_types = [" +
         types + "]\n" + line("tenant", r.tenant) + line("priority", r.priority) +
         line("deadline_seconds", r.deadline_seconds);
}

std::string checkpoint_toml(const CheckpointSpec& c) {
  return "\n[checkpoint]\n" + line("every_steps", c.every_steps) + line("directory", c.directory) +
         line("keep", c.keep);
}

std::string audit_toml(const AuditSpec& a) {
  return "\n[audit]\n" + line("every_steps", a.every_steps);
}

// The library's messages quote the text as it is: a message is one line, whatever is in it.
std::string on_one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

}  // namespace

Result<JobSpec> parse_job(std::string_view toml_text, const std::string& where) {
  ES_RETURN_IF_ERROR(check_toml_text(toml_text, where));
  toml::table table;
  try {
    table = toml::parse(toml_text);
  } catch (const toml::parse_error& error) {
    std::ostringstream at;
    at << where << ": line " << error.source().begin.line << ", column "
       << error.source().begin.column << ": " << error.description();
    return usage_error(on_one_line(at.str()));
  }
  JobSpec spec;
  Section top(table, where, "");
  read_top(top, spec);
  read_sections(top, spec);
  top.reject_unknown();
  ES_RETURN_IF_ERROR(top.status());
  ES_RETURN_IF_ERROR(validate(spec, where));
  return spec;
}

Result<JobSpec> read_job_file(const std::filesystem::path& path) {
  const Result<std::string> text = read_text_file(path, kTomlBytesMax);
  if (!text) return text.error();
  return parse_job(*text, path.string());
}

std::string to_toml(const JobSpec& s) {
  return top_toml(s) + model_toml(s.model) + data_toml(s.data) + optimizer_toml(s.optimizer) +
         schedule_toml(s.schedule) + resources_toml(s.resources) + checkpoint_toml(s.checkpoint) +
         audit_toml(s.audit);
}

}  // namespace es::actors
