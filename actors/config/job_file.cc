#include "actors/config/job_file.h"

#include <toml++/toml.h>

#include <charconv>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

namespace es::actors {
namespace {

// Reads the keys of one TOML table into fields; remembers the first error and the keys it knows.
class Section {
 public:
  Section(const toml::table& table, std::string where, std::string prefix)
      : table_(table), where_(std::move(where)), prefix_(std::move(prefix)) {}

  void read(const char* key, std::string& out) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value_exact<std::string>()) out = *value;
      else fail(key, "a string");
    }
  }
  void read(const char* key, bool& out) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value_exact<bool>()) out = *value;
      else fail(key, "true or false");
    }
  }
  void read(const char* key, double& out) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value<double>(); value && node->is_number()) out = *value;
      else fail(key, "a number");
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
      fail(key, "a whole number from 0 to " +
                    std::to_string(std::min<std::uint64_t>(std::numeric_limits<Integer>::max(),
                                                           std::numeric_limits<std::int64_t>::max())));
      return;
    }
    out = static_cast<Integer>(*value);
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
    if (parsed.ok()) out = *std::move(parsed);
    else error_ = usage_error(where_ + ": " + parsed.error().message);
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
  s.read_parsed("stages", spec.stages, parse_stages);
}

void read_sections(Section& s, JobSpec& spec) {
  s.section("model", [&](Section& t) {
    t.read("name", spec.model.name);
    t.read("width", spec.model.width);
    t.read("classes", spec.model.classes);
  });
  s.section("data", [&](Section& t) {
    t.read("kind", spec.data.kind);
    t.read("path", spec.data.path);
    t.read("height", spec.data.height);
    t.read("width", spec.data.width);
    t.read("channels", spec.data.channels);
    t.read("samples", spec.data.samples);
    t.read("eval_samples", spec.data.eval_samples);
    t.read("crop_padding", spec.data.crop_padding);
    t.read("flip", spec.data.flip);
  });
  s.section("optimizer", [&](Section& t) {
    t.read("learning_rate", spec.optimizer.learning_rate);
    t.read("momentum", spec.optimizer.momentum);
    t.read("weight_decay", spec.optimizer.weight_decay);
  });
  s.section("schedule", [&](Section& t) {
    t.read("kind", spec.schedule.kind);
    t.read("step_size", spec.schedule.step_size);
    t.read("gamma", spec.schedule.gamma);
    t.read("warmup_steps", spec.schedule.warmup_steps);
  });
  s.section("resources", [&](Section& t) {
    t.read("min_devices", spec.resources.min_devices);
    t.read("max_devices", spec.resources.max_devices);
    t.read("device_types", spec.resources.device_types);
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

std::string flag(bool value) { return value ? "true" : "false"; }

std::string top_toml(const JobSpec& s) {
  std::string out = "name = " + quoted(s.name) + "\nmax_p = " + std::to_string(s.max_p) +
                    "\nbatch_size = " + std::to_string(s.batch_size) +
                    "\nsteps = " + std::to_string(s.steps) +
                    "\nepochs = " + std::to_string(s.epochs) + "\nseed = " + std::to_string(s.seed) +
                    "\nlevel = " + quoted(level_name(s.level)) +
                    "\neval_every = " + std::to_string(s.eval_every) + "\n";
  if (!s.stages.empty()) out += "stages = " + quoted(stages_text(s.stages)) + "\n";
  return out;
}

std::string data_toml(const DataSpec& d) {
  return "\n[data]\nkind = " + quoted(d.kind) + "\npath = " + quoted(d.path) +
         "\nheight = " + std::to_string(d.height) + "\nwidth = " + std::to_string(d.width) +
         "\nchannels = " + std::to_string(d.channels) + "\nsamples = " + std::to_string(d.samples) +
         "\neval_samples = " + std::to_string(d.eval_samples) +
         "\ncrop_padding = " + std::to_string(d.crop_padding) + "\nflip = " + flag(d.flip) + "\n";
}

std::string resources_toml(const ResourceSpec& r) {
  std::string types;
  for (const DeviceType& t : r.device_types) types += (types.empty() ? "" : ", ") + quoted(t.name);
  return "\n[resources]\nmin_devices = " + std::to_string(r.min_devices) +
         "\nmax_devices = " + std::to_string(r.max_devices) + "\ndevice_types = [" + types + "]\n";
}

}  // namespace

Result<JobSpec> parse_job(std::string_view toml_text, const std::string& where) {
  toml::table table;
  try {
    table = toml::parse(toml_text);
  } catch (const toml::parse_error& error) {
    std::ostringstream at;
    at << where << ": line " << error.source().begin.line << ", column "
       << error.source().begin.column << ": " << error.description();
    return usage_error(at.str());
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
  std::ifstream in(path, std::ios::binary);
  if (!in) return not_found(path.string() + ": no such job file, or it cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  return parse_job(text.str(), path.string());
}

std::string to_toml(const JobSpec& s) {
  return top_toml(s) + "\n[model]\nname = " + quoted(s.model.name) +
         "\nwidth = " + std::to_string(s.model.width) +
         "\nclasses = " + std::to_string(s.model.classes) + "\n" + data_toml(s.data) +
         "\n[optimizer]\nlearning_rate = " + number(s.optimizer.learning_rate) +
         "\nmomentum = " + number(s.optimizer.momentum) +
         "\nweight_decay = " + number(s.optimizer.weight_decay) +
         "\n\n[schedule]\nkind = " + quoted(s.schedule.kind) +
         "\nstep_size = " + std::to_string(s.schedule.step_size) +
         "\ngamma = " + number(s.schedule.gamma) +
         "\nwarmup_steps = " + std::to_string(s.schedule.warmup_steps) + "\n" +
         resources_toml(s.resources);
}

}  // namespace es::actors
