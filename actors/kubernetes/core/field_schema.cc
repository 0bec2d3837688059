#include "actors/kubernetes/core/field_schema.h"

#include <sstream>

#include "actors/kubernetes/core/job_text.h"
#include "proto/base/job_fields.h"

namespace es::actors::kubernetes {
namespace {

// The largest whole number that the JSON of every client keeps.
constexpr double kWholeMax = 9007199254740991.0;
Json with_range(Json schema, const JobField& field) {
  if (field.low == field.high) return schema;
  const bool has_also = !field.also_means.empty();
  const auto number = [&](double value) {
    return schema["type"] == "integer" ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  schema["minimum"] = number(has_also ? std::min(field.low, field.also) : field.low);
  if (field.low_is_open && !has_also) schema["exclusiveMinimum"] = true;
  if (field.high <= kWholeMax) schema["maximum"] = number(field.high);
  if (field.high_is_open) schema["exclusiveMaximum"] = true;
  return schema;
}

Json text_schema(const JobField& field) {
  Json schema{{"type", "string"}};
  if (field.choices.empty()) {
    schema["maxLength"] = field.bytes_max;
    return schema;
  }
  std::istringstream choices{std::string(field.choices)};
  for (std::string choice; std::getline(choices, choice, '|');) schema["enum"].push_back(choice);
  return schema;
}

Json table_schema(const std::vector<FieldValue>& fields);

Json value_schema(const FieldValue& value) {
  if (value.type == "whole number")
    return with_range({{"type", "integer"}, {"format", "int64"}}, value.field);
  if (value.type == "number") return with_range({{"type", "number"}}, value.field);
  if (value.type == "true or false") return {{"type", "boolean"}};
  if (value.type == "text") return text_schema(value.field);
  Json items = value.members.empty() ? text_schema(value.field) : table_schema(value.members);
  return {{"type", "array"}, {"maxItems", kListMax}, {"items", std::move(items)}};
}

// What `kubectl explain` shows.
std::string description_of(const FieldValue& value) {
  const JobField& field = value.field;
  std::string text(field.meaning);
  const std::string allowed = allowed_text(field);
  if (!allowed.empty()) text += " Allowed: " + allowed + ".";
  if (!field.unit.empty()) text += " Unit: " + std::string(field.unit) + ".";
  if (!value.toml.empty()) text += " Default: " + value.toml + ".";
  if (!field.applies_to.empty()) text += " For " + std::string(field.applies_to) + ".";
  return text;
}

Json field_schema(const FieldValue& value) {
  Json schema{{"description", description_of(value)}};
  schema.update(value_schema(value));
  return schema;
}

Json table_schema(const std::vector<FieldValue>& fields) {
  Json properties = Json::object();
  for (const FieldValue& value : fields)
    properties[camel_case(value.field.key)] = field_schema(value);
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

}  // namespace

Json job_properties() {
  Json properties = Json::object();
  for (const FieldValue& value : field_values(JobSpec{})) {
    if (value.field.key == "name") continue;
    const std::string table = camel_case(table_of(value.field));
    if (!table.empty() && !properties.contains(table))
      properties[table] = {{"type", "object"}, {"properties", Json::object()}};
    Json& place = table.empty() ? properties : properties[table]["properties"];
    place[camel_case(name_in_table(value.field))] = field_schema(value);
  }
  return properties;
}

}  // namespace es::actors::kubernetes
