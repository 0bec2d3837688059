#include "actors/base/job_file/job_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "actors/base/job_file/toml_bounds.h"
#include "proto/base/job_fields.h"
#include "proto/base/text_file.h"

namespace es::actors {
namespace {

// Reads the fields of a job file; remembers the first error.
class Reader {
 public:
  Reader(const toml::table& root, std::string where) : root_(root), where_(std::move(where)) {}

  template <class Value>
  void operator()(const JobField& field, Value& out) {
    const toml::table* table = table_with(field);
    const std::string name(name_in_table(field));
    const toml::node* node = table == nullptr ? nullptr : table->get(name);
    if (node == nullptr) return;
    given_.emplace_back(field, node);
    if (!error_) read(field, *node, out);
  }

  // Refuses fields that another field of the job takes the place of.
  void reject_excluded(const JobSpec& spec) {
    for (const auto& [field, node] : given_)
      if (field.excluded != nullptr && field.excluded(spec))
        fail(field.key, *node, "no such key beside " + std::string(field.excluded_by));
  }

  void reject_unknown() {
    reject_unknown(root_, "");
    for (const auto& [key, value] : root_)
      if (const toml::table* inner = value.as_table();
          inner != nullptr && known_.contains(std::string(key.str()) + "."))
        reject_unknown(*inner, std::string(key.str()) + ".");
  }

  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  // None: the file does not have it, or something else under its name.
  const toml::table* table_with(const JobField& field) {
    const std::string table(table_of(field));
    known_[table.empty() ? "" : table + "."].insert(std::string(name_in_table(field)));
    if (table.empty()) return &root_;
    known_[""].insert(table);
    const toml::node* node = root_.get(table);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) fail(table, *node, "a table [" + table + "]");
    return node->as_table();
  }

  void read(const JobField& field, const toml::node& node, std::string& out) {
    if (const auto value = node.value_exact<std::string>())
      out = *value;
    else
      fail(field.key, node, "a string");
  }
  void read(const JobField& field, const toml::node& node, bool& out) {
    if (const auto value = node.value_exact<bool>())
      out = *value;
    else
      fail(field.key, node, "true or false");
  }
  void read(const JobField& field, const toml::node& node, double& out) {
    if (const auto value = node.value<double>(); value && node.is_number())
      out = *value;
    else
      fail(field.key, node, "a number");
  }
  void read(const JobField& field, const toml::node& node, int& out) {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value != static_cast<int>(*value))
      return fail(field.key, node, "a whole number");
    out = static_cast<int>(*value);
  }
  template <std::unsigned_integral Integer>
  void read(const JobField& field, const toml::node& node, Integer& out) {
    // TOML has signed integers of 64 bits only, so a larger value cannot be written, even if the
    // field could hold it.
    constexpr std::uint64_t kMax = std::min<std::uint64_t>(
        std::numeric_limits<Integer>::max(), std::numeric_limits<std::int64_t>::max());
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < 0 || static_cast<std::uint64_t>(*value) > kMax)
      return fail(field.key, node, "a whole number from 0 to " + std::to_string(kMax));
    out = static_cast<Integer>(*value);
  }
  void read(const JobField& field, const toml::node& node, std::optional<double>& out) {
    read(field, node, out.emplace());
  }
  void read(const JobField& field, const toml::node& node, std::vector<DeviceType>& out) {
    read_texts(field, node, "a list of device types",
               [&out](const std::string& name) { out.push_back({name}); });
  }
  void read(const JobField& field, const toml::node& node, std::vector<std::string>& out) {
    read_texts(field, node, "a list of texts",
               [&out](const std::string& text) { out.push_back(text); });
  }
  template <class Add>
  void read_texts(const JobField& field, const toml::node& node, const char* allowed, Add add) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return fail(field.key, node, allowed);
    for (const toml::node& item : *array) {
      const auto text = item.value_exact<std::string>();
      if (!text) return fail(field.key, node, allowed);
      add(*text);
    }
  }
  void read(const JobField& field, const toml::node& node, std::vector<ParameterGroup>& out) {
    read_groups(field, node, out);
  }
  void read(const JobField& field, const toml::node& node, std::vector<ClipGroup>& out) {
    read_groups(field, node, out);
  }
  template <class Group>
  void read_groups(const JobField& field, const toml::node& node, std::vector<Group>& out) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return fail(field.key, node, "a list of tables");
    for (const toml::node& item : *array) {
      const toml::table* table = item.as_table();
      if (table == nullptr) return fail(field.key, node, "a list of tables");
      out.emplace_back();
      read_group(*table, out.size() - 1, out.back());
    }
  }
  template <class Group>
  void read_group(const toml::table& table, std::size_t place, Group& out) {
    const std::string prefix = group_key<Group>(place, "");
    visit_group_fields(out, [&](JobField field, auto& value) {
      known_[prefix].insert(std::string(field.key));
      const std::string key = group_key<Group>(place, field.key);
      const toml::node* node = table.get(field.key);
      field.key = key;
      if (node != nullptr && !error_) read(field, *node, value);
    });
    reject_unknown(table, prefix);
  }
  void read(const JobField& field, const toml::node& node, DeterminismLevel& out) {
    read_parsed(field, node, out, parse_level);
  }
  void read(const JobField& field, const toml::node& node, std::vector<Stage>& out) {
    read_parsed(field, node, out, parse_stages);
  }
  void read(const JobField& field, const toml::node& node, std::vector<SchedulePoint>& out) {
    read_parsed(field, node, out, [&field](const std::string& text) {
      return parse_schedule_points(field.key, text);
    });
  }
  template <class Value, class Parse>
  void read_parsed(const JobField& field, const toml::node& node, Value& out, Parse&& parse) {
    std::string text;
    read(field, node, text);
    if (error_) return;
    auto parsed = parse(text);
    if (parsed.ok())
      out = *std::move(parsed);
    else
      error_ = usage_error(where_ + ": " + parsed.error().message);
  }

  void reject_unknown(const toml::table& table, const std::string& prefix) {
    const std::set<std::string>& known = known_[prefix];
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      if (known.contains(name) || error_) continue;
      std::string list;
      for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
      error_ = usage_error(where_ + ": unknown key " + prefix + name + " (line " +
                           std::to_string(value.source().begin.line) + "); allowed here: " + list);
    }
  }

  void fail(std::string_view key, const toml::node& node, const std::string& allowed) {
    if (error_) return;
    std::ostringstream value;
    value << toml::node_view<const toml::node>(node);
    error_ = usage_error(where_ + ": " + std::string(key) + " = " + value.str() + ": allowed is " +
                         allowed);
  }

  const toml::table& root_;
  std::string where_;
  std::map<std::string, std::set<std::string>> known_;  // keys by the prefix of their table
  std::vector<std::pair<JobField, const toml::node*>> given_;
  std::optional<Error> error_;
};

// One line each, a table under its header. A field that was added later is left out where it says
// nothing: ledger files hold digests of such texts.
std::string toml_of(const std::vector<FieldValue>& values) {
  static const std::vector<FieldValue> defaults = field_values(JobSpec{});
  std::string text, table;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const JobField& field = values[i].field;
    if (values[i].excluded || (field.left_out_at_default && values[i] == defaults[i])) continue;
    if (table_of(field) != table) {
      table = table_of(field);
      text += "\n[" + table + "]\n";
    }
    text += std::string(name_in_table(field)) + " = " + values[i].toml + "\n";
  }
  return text;
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
  Reader reader(table, where);
  visit_job_fields(spec, reader);
  reader.reject_unknown();
  reader.reject_excluded(spec);
  ES_RETURN_IF_ERROR(reader.status());
  ES_RETURN_IF_ERROR(validate(spec, where));
  return spec;
}

Result<JobSpec> read_job_file(const std::filesystem::path& path) {
  const Result<std::string> text = read_text_file(path, kTomlBytesMax);
  if (!text) return text.error();
  return parse_job(*text, path.string());
}

std::string to_toml(const JobSpec& spec) {
  return toml_of(field_values(spec));
}

std::string bits_toml(const JobSpec& spec) {
  std::vector<FieldValue> values = field_values(spec);
  const std::vector<FieldValue> defaults = field_values(JobSpec{});
  for (std::size_t i = 0; i < values.size(); ++i)
    // Fields that cannot change the bits get their defaults, so the texts of two jobs differ only
    // in fields that decide the bits.
    if (bits_of(values[i].field, spec) == Bits::kNot) values[i] = defaults[i];
  return toml_of(values);
}

}  // namespace es::actors
