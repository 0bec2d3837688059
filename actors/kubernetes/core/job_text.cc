#include "actors/kubernetes/core/job_text.h"

#include "actors/base/job_file/job_file.h"
#include "proto/base/job_fields.h"

namespace es::actors::kubernetes {
namespace {

// JSON and TOML write whole numbers, truth values and texts alike. A number of TOML that is not
// whole has a point or an exponent.
std::string toml_value(const Json& value, const FieldValue& field);

std::string toml_list(const Json& values, const FieldValue& field) {
  std::string list;
  for (const Json& value : values) list += (list.empty() ? "" : ", ") + toml_value(value, field);
  return "[" + list + "]";
}

std::string toml_table(const Json& table, const std::vector<FieldValue>& fields) {
  std::string text;
  for (const FieldValue& field : fields) {
    const auto value = table.find(camel_case(field.field.key));
    if (value != table.end())
      text += (text.empty() ? "" : ", ") + std::string(field.field.key) + " = " +
              toml_value(*value, field);
  }
  return "{" + text + "}";
}

std::string toml_value(const Json& value, const FieldValue& field) {
  if (value.is_array()) return toml_list(value, field);
  if (value.is_object()) return toml_table(value, field.members);
  if (field.type == "number" && value.is_number_integer()) return value.dump() + ".0";
  return value.dump();
}

// minDevices beside devices is resources.minDevices of the job file.
Status move_min_devices(Json& spec) {
  const Json wanted = value_at(spec, {"minDevices"}, Json());
  if (wanted.is_null()) return {};
  Json& place = spec["resources"]["minDevices"];
  if (!place.is_null() && place != wanted)
    return usage_error("spec.minDevices = " + wanted.dump() + " and spec.resources.minDevices = " +
                       place.dump() + ": allowed is one of them, or the same number");
  place = wanted;
  return {};
}

}  // namespace

std::string camel_case(std::string_view key) {
  std::string text;
  bool upper = false;
  for (const char c : key) {
    if (c != '_') text += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '_';
  }
  return text;
}

Result<JobSpec> job_spec_of(const Json& job) {
  Json spec = value_at(job, {"spec"}, Json::object());
  ES_RETURN_IF_ERROR(move_min_devices(spec));
  std::string text = "name = " + Json(name_of(job)).dump() + "\n", table;
  for (const FieldValue& field : field_values(JobSpec{})) {
    const std::string_view own = table_of(field.field);
    const Json* from = &spec;
    if (!own.empty()) {
      const auto found = spec.find(camel_case(own));
      if (found == spec.end() || !found->is_object()) continue;
      from = &*found;
    }
    const auto value = from->find(camel_case(name_in_table(field.field)));
    if (value == from->end() || field.field.key == "name") continue;
    if (own != table) text += "[" + std::string(table = own) + "]\n";
    text += std::string(name_in_table(field.field)) + " = " + toml_value(*value, field) + "\n";
  }
  return parse_job(text, "ElasticTrainingJob " + name_of(job));
}

}  // namespace es::actors::kubernetes
