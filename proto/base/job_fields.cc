#include "proto/base/job_fields.h"

#include <charconv>
#include <concepts>

#include "proto/base/number_text.h"

namespace es {
namespace {

std::string choices_text(std::string_view choices) {
  std::string text;
  for (const char c : choices)
    if (c == '|')
      text += ", ";
    else
      text += c;
  return text;
}

std::string range_text(const JobField& field) {
  if (field.low_is_open)
    return "above " + number_text(field.low) + ", at most " + number_text(field.high);
  std::string text = number_text(field.low);
  if (!field.zero.empty()) text += " (" + std::string(field.zero) + ")";
  text += field.high_is_open ? " to below " : " to ";
  text += number_text(field.high);
  if (!field.also_means.empty())
    text += ", or " + number_text(field.also) + " for " + std::string(field.also_means);
  return text;
}

template <std::integral Integer>
std::string_view type_name(Integer) {
  return "whole number";
}
// bool is an integral type too. The overload that is no template is preferred.
std::string_view type_name(bool) {
  return "true or false";
}
std::string_view type_name(double) {
  return "number";
}
std::string_view type_name(const std::optional<double>&) {
  return "number";
}
std::string_view type_name(const std::vector<DeviceType>&) {
  return "list of texts";
}
std::string_view type_name(const std::vector<std::string>&) {
  return "list of texts";
}
std::string_view type_name(const std::vector<ParameterGroup>&) {
  return "list of tables";
}
std::string_view type_name(const std::vector<ClipGroup>&) {
  return "list of tables";
}
std::string_view type_name(const std::string&) {
  return "text";
}
std::string_view type_name(DeterminismLevel) {
  return "text";
}
std::string_view type_name(const std::vector<Stage>&) {
  return "text";
}
std::string_view type_name(const std::vector<SchedulePoint>&) {
  return "text";
}

template <std::integral Integer>
std::string toml_text(Integer value) {
  return std::to_string(value);
}

std::string toml_text(bool value) {
  return value ? "true" : "false";
}

// The shortest decimal text that reads back as the same double. It always has a point or an
// exponent, because TOML would read it as an integer otherwise.
std::string toml_text(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string out(text, end);
  // 'n' is for nan and inf, which TOML also writes without a point.
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::string toml_text(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    // Other characters need no escape, because texts of a job have no control characters
    // (validate()).
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string toml_text(DeterminismLevel level) {
  return toml_text(std::string(level_name(level)));
}

std::string toml_text(const std::vector<Stage>& stages) {
  return toml_text(stages_text(stages));
}

std::string toml_text(const std::vector<SchedulePoint>& points) {
  return toml_text(schedule_points_text(points));
}

std::string toml_text(const std::optional<double>& value) {
  return value ? toml_text(*value) : "";
}

template <class Items, class TextOf>
std::string toml_list(const Items& items, TextOf text_of) {
  std::string list;
  for (const auto& item : items) list += (list.empty() ? "" : ", ") + text_of(item);
  return "[" + list + "]";
}

std::string toml_text(const std::vector<DeviceType>& types) {
  return toml_list(types, [](const DeviceType& type) { return toml_text(type.name); });
}

std::string toml_text(const std::vector<std::string>& texts) {
  return toml_list(texts, [](const std::string& text) { return toml_text(text); });
}

// Inline tables, so that a list of groups is one line like every other field.
template <class Group>
std::string groups_text(const std::vector<Group>& groups) {
  return toml_list(groups, [](const Group& group) {
    std::string text;
    for (const FieldValue& value : group_field_values(group))
      if (!value.toml.empty())
        text += (text.empty() ? "" : ", ") + std::string(value.field.key) + " = " + value.toml;
    return "{" + text + "}";
  });
}

std::string toml_text(const std::vector<ParameterGroup>& groups) {
  return groups_text(groups);
}

std::string toml_text(const std::vector<ClipGroup>& groups) {
  return groups_text(groups);
}

template <class Group>
std::vector<FieldValue> values_of_group(const Group& group) {
  std::vector<FieldValue> values;
  visit_group_fields(group, [&](const JobField& field, const auto& value) {
    values.push_back({field, type_name(value), toml_text(value)});
  });
  return values;
}

template <class Value>
std::vector<FieldValue> members_of(const Value&) {
  return {};
}
template <class Group>
requires std::same_as<Group, ParameterGroup> || std::same_as<Group, ClipGroup>
    std::vector<FieldValue> members_of(const std::vector<Group>&) {
  return group_field_values(Group{});
}

}  // namespace

std::string allowed_text(const JobField& field) {
  if (!field.allowed.empty()) return std::string(field.allowed);
  if (!field.choices.empty()) return choices_text(field.choices);
  if (field.low != field.high) return range_text(field);
  return {};
}

std::string_view table_of(const JobField& field) {
  const std::size_t dot = field.key.find('.');
  return dot == std::string_view::npos ? std::string_view() : field.key.substr(0, dot);
}

std::string_view name_in_table(const JobField& field) {
  return field.key.substr(field.key.find('.') + 1);  // npos + 1 is 0
}

std::vector<FieldValue> field_values(const JobSpec& spec) {
  std::vector<FieldValue> values;
  visit_job_fields(spec, [&](const JobField& field, const auto& value) {
    const bool excluded = field.excluded != nullptr && field.excluded(spec);
    values.push_back({field, type_name(value), toml_text(value), excluded, members_of(value)});
  });
  return values;
}

std::vector<FieldValue> group_field_values(const ParameterGroup& group) {
  return values_of_group(group);
}

std::vector<FieldValue> group_field_values(const ClipGroup& group) {
  return values_of_group(group);
}

Bits bits_of(const JobField& field, const JobSpec& spec) {
  const bool lowers_rate = field.key == "eval_every" && job_fields::goes_by_evaluations(spec);
  return lowers_rate ? Bits::kDecided : field.bits;
}

std::string_view first_other_bits(const JobSpec& a, const JobSpec& b) {
  const std::vector<FieldValue> mine = field_values(a), other = field_values(b);
  for (std::size_t i = 0; i < mine.size(); ++i)
    // The canonical texts are compared. Both lists come from one table, so equal positions are the
    // same field.
    if (bits_of(mine[i].field, a) == Bits::kDecided && !(mine[i] == other[i]))
      return mine[i].field.key;
  return {};
}

}  // namespace es
