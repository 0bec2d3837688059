#pragma once
// A node of a program together with the shapes of its inputs and the values of its attributes.
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/import/values.h"
#include "proto/base/model_program.h"

namespace es::gpu {

struct Kind;  // kind.h

enum class AttributeType { kBool, kInt, kFloat, kText, kInts, kFloats };

// An attribute of a kind. Numbers are finite and in [low, high]; so are the elements of a list.
struct AttributeRule {
  const char* name;
  AttributeType type;
  double low = -std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::max();
  std::vector<const char*> texts = {};  // the allowed texts
  bool optional = false;                // a node may lack the attribute
  bool has_fallback = false;  // which then has `fallback`; otherwise NodeView::given() is asked
  double fallback = 0.0;      // of a number or bool; a text falls back to texts[0]

  AttributeRule or_else(double value) const {
    AttributeRule rule = *this;
    rule.optional = rule.has_fallback = true;
    rule.fallback = value;
    return rule;
  }
  AttributeRule or_none() const {
    AttributeRule rule = *this;
    rule.optional = true;
    return rule;
  }
};

// Rules of common attributes.
AttributeRule flag(const char* name);
AttributeRule integer(const char* name, std::int64_t low, std::int64_t high);
AttributeRule integers(const char* name, std::int64_t low, std::int64_t high);
AttributeRule number(const char* name);
AttributeRule number(const char* name, double low, double high);
AttributeRule numbers(const char* name, double low, double high);
AttributeRule text(const char* name, std::vector<const char*> texts);
AttributeRule axis_rule();  // "axis": one axis of a tensor of any rank

// A view: the program and the values outlive it. The accessors of inputs and attributes require a
// node that check.h accepts.
class NodeView {
 public:
  NodeView(const Kind& kind, const ModelNode& node, std::size_t index,
           std::span<const ValueInfo> values)
      : kind_(kind), node_(node), index_(index), values_(values) {}

  const Kind& kind() const { return kind_; }
  const ModelNode& node() const { return node_; }
  std::size_t index() const { return index_; }
  // Returns "nodes[17] (conv "layer1.0.conv1", net.py:17)".
  std::string where() const;
  // Returns the name of the module, or the kind and the index if there is none.
  std::string label() const;

  std::size_t inputs() const { return node_.inputs.size(); }
  bool has(std::size_t slot) const { return slot < inputs() && node_.inputs[slot] != kNoValue; }
  ValueId input(std::size_t slot) const { return has(slot) ? node_.inputs[slot] : kNoValue; }
  ValueId output(std::size_t i = 0) const { return node_.outputs[i]; }
  const ValueInfo& in(std::size_t slot = 0) const { return of(node_.inputs[slot]); }
  const TensorShape& shape(std::size_t slot = 0) const { return in(slot).shape; }
  // The output as the file claims it.
  const ValueInfo& out(std::size_t i = 0) const { return of(node_.outputs[i]); }

  // Whether the node itself has the attribute.
  bool given(std::string_view name) const;
  bool flag(const char* name) const;
  std::int64_t integer(const char* name) const;
  double number(const char* name) const;
  std::string text(const char* name) const;
  std::vector<std::int64_t> integers(const char* name) const;
  std::vector<double> numbers(const char* name) const;

 private:
  const ValueInfo& of(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  const ModelAttribute* find(std::string_view name) const;
  const AttributeRule& rule(std::string_view name) const;

  const Kind& kind_;
  const ModelNode& node_;
  std::size_t index_;
  std::span<const ValueInfo> values_;
};

}  // namespace es::gpu
