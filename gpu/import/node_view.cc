#include "gpu/import/node_view.h"

#include <algorithm>

#include "gpu/import/kind.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

namespace es::gpu {

AttributeRule flag(const char* name) {
  return {.name = name, .type = AttributeType::kBool};
}
AttributeRule integer(const char* name, std::int64_t low, std::int64_t high) {
  return {.name = name,
          .type = AttributeType::kInt,
          .low = static_cast<double>(low),
          .high = static_cast<double>(high)};
}
AttributeRule axis_rule() {
  return integer("axis", 0, kRankMax - 1);
}
AttributeRule integers(const char* name, std::int64_t low, std::int64_t high) {
  AttributeRule rule = integer(name, low, high);
  rule.type = AttributeType::kInts;
  return rule;
}
AttributeRule number(const char* name) {
  return {.name = name, .type = AttributeType::kFloat};
}
AttributeRule number(const char* name, double low, double high) {
  return {.name = name, .type = AttributeType::kFloat, .low = low, .high = high};
}
AttributeRule numbers(const char* name, double low, double high) {
  AttributeRule rule = number(name, low, high);
  rule.type = AttributeType::kFloats;
  return rule;
}
AttributeRule text(const char* name, std::vector<const char*> texts) {
  return {.name = name, .type = AttributeType::kText, .texts = std::move(texts)};
}

// Names and sources come from a file, so they are escaped before they appear in a message.
std::string NodeView::where() const {
  std::string text = "nodes[" + std::to_string(index_) + "] (" + kind_.name;
  if (!node_.name.empty()) text += " \"" + escaped(node_.name) + "\"";
  if (!node_.source.empty()) text += ", " + escaped(node_.source);
  return text + ")";
}

std::string NodeView::label() const {
  return node_.name.empty() ? kind_.name + ("_" + std::to_string(index_)) : node_.name;
}

const ModelAttribute* NodeView::find(std::string_view name) const {
  const auto found = std::find_if(node_.attributes.begin(), node_.attributes.end(),
                                  [&](const ModelAttribute& a) { return a.name == name; });
  return found == node_.attributes.end() ? nullptr : &*found;
}

const AttributeRule& NodeView::rule(std::string_view name) const {
  const auto found = std::find_if(kind_.attributes.begin(), kind_.attributes.end(),
                                  [&](const AttributeRule& r) { return r.name == name; });
  ES_CHECK_MSG(found != kind_.attributes.end(), std::string(kind_.name) + "." + std::string(name));
  return *found;
}

bool NodeView::given(std::string_view name) const {
  return find(name) != nullptr;
}

bool NodeView::flag(const char* name) const {
  const ModelAttribute* const a = find(name);
  return a == nullptr ? rule(name).fallback != 0.0 : std::get<bool>(a->value);
}

// The check of the program has compared all attributes with the rules, so one that is missing here
// is optional and has a default.
std::int64_t NodeView::integer(const char* name) const {
  const ModelAttribute* const a = find(name);
  return a == nullptr ? static_cast<std::int64_t>(rule(name).fallback)
                      : std::get<std::int64_t>(a->value);
}

double NodeView::number(const char* name) const {
  const ModelAttribute* const a = find(name);
  return a == nullptr ? rule(name).fallback : std::get<double>(a->value);
}

std::string NodeView::text(const char* name) const {
  const ModelAttribute* const a = find(name);
  return a == nullptr ? rule(name).texts[0] : std::get<std::string>(a->value);
}

std::vector<std::int64_t> NodeView::integers(const char* name) const {
  const ModelAttribute* const a = find(name);
  return a == nullptr ? std::vector<std::int64_t>() : std::get<std::vector<std::int64_t>>(a->value);
}

std::vector<double> NodeView::numbers(const char* name) const {
  const ModelAttribute* const a = find(name);
  return a == nullptr ? std::vector<double>() : std::get<std::vector<double>>(a->value);
}

}  // namespace es::gpu
