#include "gpu/import/check_parts.h"

#include <algorithm>
#include <cmath>

#include "gpu/import/kind.h"
#include "proto/base/number_text.h"
#include "proto/base/text.h"

namespace es::gpu {
namespace {

std::string node_path(std::size_t index) {
  return "nodes[" + std::to_string(index) + "]";
}

const char* attribute_type_name(AttributeType type) {
  constexpr const char* kNames[] = {"a bool", "an integer",         "a number",
                                    "a text", "a list of integers", "a list of numbers"};
  return kNames[static_cast<std::size_t>(type)];
}

bool has_type(const ModelAttribute& a, AttributeType type) {
  switch (type) {
    case AttributeType::kBool:
      return std::holds_alternative<bool>(a.value);
    case AttributeType::kInt:
      return std::holds_alternative<std::int64_t>(a.value);
    case AttributeType::kFloat:
      return std::holds_alternative<double>(a.value);
    case AttributeType::kText:
      return std::holds_alternative<std::string>(a.value);
    case AttributeType::kInts:
      return std::holds_alternative<std::vector<std::int64_t>>(a.value);
    case AttributeType::kFloats:
      return std::holds_alternative<std::vector<double>>(a.value);
  }
  return false;
}

// NaN is not finite, so no attribute is NaN or infinite.
bool in_range(const AttributeRule& rule, double value) {
  return std::isfinite(value) && rule.low <= value && value <= rule.high;
}

// Returns the value that the rule does not allow, as text; "" if it allows the attribute.
std::string refused_value(const AttributeRule& rule, const ModelAttribute& a) {
  if (const auto* i = std::get_if<std::int64_t>(&a.value))
    return in_range(rule, static_cast<double>(*i)) ? "" : std::to_string(*i);
  if (const auto* d = std::get_if<double>(&a.value))
    return in_range(rule, *d) ? "" : number_text(*d);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&a.value)) {
    for (const std::int64_t i : *list)
      if (!in_range(rule, static_cast<double>(i))) return std::to_string(i);
  } else if (const auto* list = std::get_if<std::vector<double>>(&a.value)) {
    for (const double d : *list)
      if (!in_range(rule, d)) return number_text(d);
  } else if (const auto* s = std::get_if<std::string>(&a.value)) {
    const bool allowed = std::any_of(rule.texts.begin(), rule.texts.end(),
                                     [&](const char* text) { return *s == text; });
    // The text comes from a file, so the message quotes a part of it only.
    return allowed ? "" : "\"" + escaped(s->substr(0, 64)) + "\"";
  }
  return "";
}

std::string allowed_values(const AttributeRule& rule) {
  if (rule.type != AttributeType::kText)
    return number_text(rule.low) + " to " + number_text(rule.high);
  std::string names;
  for (const char* text : rule.texts) names += (names.empty() ? "" : ", ") + std::string(text);
  return names;
}

Status check_attribute(const Kind& kind, const ModelAttribute& a, const std::string& path) {
  const auto rule = std::find_if(kind.attributes.begin(), kind.attributes.end(),
                                 [&](const AttributeRule& r) { return a.name == r.name; });
  if (rule == kind.attributes.end()) {
    std::string names;
    for (const AttributeRule& r : kind.attributes)
      names += (names.empty() ? "" : ", ") + std::string(r.name);
    return usage_error(path + ".name = \"" + escaped(a.name) + "\": allowed for " + kind.name +
                       (names.empty() ? " is none" : " are " + names));
  }
  if (!has_type(a, rule->type))
    return usage_error(path + " \"" + a.name + "\" has another type: allowed is " +
                       attribute_type_name(rule->type));
  const std::string refused = refused_value(*rule, a);
  if (!refused.empty())
    return usage_error(path + " \"" + a.name + "\" = " + refused + ": allowed is " +
                       allowed_values(*rule));
  return {};
}

Status check_attribute_names(const Kind& kind, const ModelNode& node, const std::string& path) {
  for (const AttributeRule& rule : kind.attributes) {
    const auto times = std::count_if(node.attributes.begin(), node.attributes.end(),
                                     [&](const ModelAttribute& a) { return a.name == rule.name; });
    // Lookups take the first attribute of a name, so a second one would be ignored in silence.
    if (times > 1) return usage_error(path + ".attributes has \"" + rule.name + "\" twice");
    if (times == 0 && !rule.optional)
      return usage_error(path + ".attributes lacks \"" + rule.name + "\" of " + kind.name);
  }
  return {};
}

// --- Inputs and outputs.

std::string slot_name(const Kind& kind, std::size_t slot) {
  return kind.slots[std::min(slot, kind.slots.size() - 1)].name;
}

Status check_input_types(const NodeView& node, const std::string& path) {
  const Kind& kind = node.kind();
  if (node.inputs() > kind.slots.size() && !kind.variadic)
    return usage_error(path + ".inputs has " + std::to_string(node.inputs()) +
                       " values: allowed for " + kind.name + " are at most " +
                       std::to_string(kind.slots.size()));
  for (std::size_t i = 0; i < std::max(kind.slots.size(), node.inputs()); ++i) {
    // The last slot of a variadic kind stands for all further inputs.
    const Slot& slot = kind.slots[std::min(i, kind.slots.size() - 1)];
    const std::string at = path + ".inputs[" + std::to_string(i) + "]";
    if (!node.has(i)) {
      if (slot.optional) continue;
      return usage_error(at + " is missing: " + kind.name + " needs its " + slot_name(kind, i));
    }
    // The letters have the order of ValueType.
    const char letter = "fibl"[static_cast<std::size_t>(node.in(i).type)];
    if (std::string_view(slot.types).find(letter) == std::string_view::npos) {
      std::string allowed;
      for (const char* t = slot.types; *t != 0; ++t)
        allowed += (allowed.empty() ? "" : ", ") + std::string(*t == 'f'   ? "f32"
                                                               : *t == 'i' ? "i32"
                                                               : *t == 'b' ? "bool"
                                                                           : "i64");
      return usage_error(at + " (" + slot.name + ") is " + value_text(node.in(i)) +
                         ": allowed is " + allowed);
    }
  }
  return {};
}

}  // namespace

Status check_attributes(const ModelNode& node, std::size_t index) {
  const std::string path = node_path(index);
  const Kind* const kind = find_kind(node.kind);
  if (kind == nullptr)
    return usage_error(path + ".kind = \"" + escaped(node.kind) +
                       "\": this version knows no such kind");
  // A later version of a kind may mean something else, so a file that needs it is refused.
  if (node.version != 1)
    return usage_error(path + ".version = " + std::to_string(node.version) + ": allowed for " +
                       kind->name + " is 1");
  for (std::size_t i = 0; i < node.attributes.size(); ++i)
    ES_RETURN_IF_ERROR(check_attribute(*kind, node.attributes[i],
                                       path + ".attributes[" + std::to_string(i) + "]"));
  return check_attribute_names(*kind, node, path);
}

Status check_node_shapes(const ModelNode& node, std::size_t index,
                         std::span<const ValueInfo> values) {
  const NodeView view(*find_kind(node.kind), node, index, values);
  ES_RETURN_IF_ERROR(check_input_types(view, node_path(index)));
  const Outputs outputs = view.kind().outputs(view);
  if (!outputs) return usage_error(view.where() + ": " + outputs.error().message);
  if (outputs->size() != node.outputs.size())
    return usage_error(node_path(index) + ".outputs has " + std::to_string(node.outputs.size()) +
                       " values: allowed for " + view.kind().name + " is " +
                       std::to_string(outputs->size()));
  for (std::size_t i = 0; i < outputs->size(); ++i)
    // The file states the type and shape of every value. A statement that the shape rule does not
    // confirm is refused, so a front end that computes shapes wrongly is found here and not in a
    // kernel.
    if ((*outputs)[i] != view.out(i))
      return usage_error(node_path(index) + ".outputs[" + std::to_string(i) + "] is " +
                         value_text(view.out(i)) + " in values[" + std::to_string(view.output(i)) +
                         "], but " + view.where() + " gives " + value_text((*outputs)[i]));
  return {};
}

}  // namespace es::gpu
