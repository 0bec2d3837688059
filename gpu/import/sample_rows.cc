#include "gpu/import/sample_rows.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/import/kind.h"

namespace es::gpu {
namespace {

// The axis of a value along which the samples lie.
constexpr int kNoAxis = -1, kSeveralAxes = -2;

int sample_axis(const ModelValue& value) {
  int found = kNoAxis;
  for (std::size_t axis = 0; axis < value.dims.size(); ++axis) {
    if (!value.dims[axis].per_batch) continue;
    if (found != kNoAxis) return kSeveralAxes;
    found = static_cast<int>(axis);
  }
  return found;
}

template <class T>
T attribute_of(const ModelNode& node, std::string_view name) {
  const auto found = std::ranges::find(node.attributes, name, &ModelAttribute::name);
  const T* const value = found == node.attributes.end() ? nullptr : std::get_if<T>(&found->value);
  return value == nullptr ? T() : *value;
}

bool lists(const ModelNode& node, std::string_view name, int axis) {
  const auto axes = attribute_of<std::vector<std::int64_t>>(node, name);
  return std::ranges::find(axes, axis) != axes.end();
}

// An input of a node that has samples, and the output of the node.
struct Place {
  const ModelNode& node;
  const ModelValue &x, &y;
  std::size_t slot;
  int from, to;  // the axes of the samples
  int rank() const { return static_cast<int>(x.dims.size()); }
};

// --- Rules: whether a node whose input keeps the samples apart has an output that does, too.

// The operands are aligned at their last axes.
bool aligned(const Place& p) {
  const int added = static_cast<int>(p.y.dims.size()) - p.rank();
  return p.from + added == p.to;
}

// If the axis of the samples is reduced, the output has none, which is asked before.
bool reduced(const Place&) {
  return true;
}

bool along_another_axis(const Place& p) {
  return p.from == p.to && attribute_of<std::int64_t>(p.node, "axis") != p.from;
}
bool along_other_axes(const Place& p) {
  return p.from == p.to && !lists(p.node, "axes", p.from);
}

bool permuted(const Place& p) {
  const auto order = attribute_of<std::vector<std::int64_t>>(p.node, "order");
  return order[static_cast<std::size_t>(p.to)] == p.from;
}

// The elements of a sample stay together if as many elements as before lie in front of the axis.
bool regrouped(const Place& p) {
  const auto before = [](const ModelValue& value, int axis) {
    std::int64_t count = 1;
    for (int a = 0; a < axis; ++a) count *= value.dims[static_cast<std::size_t>(a)].size;
    return count;
  };
  return before(p.x, p.from) == before(p.y, p.to);
}

bool in_front(const Place& p) {
  return p.from == 0 && p.to == 0;
}

// A padding may also cut off as much as it adds, which shifts the samples.
bool padded_elsewhere(const Place& p) {
  const auto words = [&](const char* side) {
    return attribute_of<std::vector<std::int64_t>>(p.node, side)[static_cast<std::size_t>(p.from)];
  };
  return p.from == p.to && words("before") == 0 && words("after") == 0;
}

// The attribute `axes` is the number of the last axes, which are normalised together.
bool normalised(const Place& p) {
  return p.from < p.rank() - attribute_of<std::int64_t>(p.node, "axes");
}

// A row is selected from a table that has no samples.
bool looked_up(const Place& p) {
  const std::size_t ids = p.node.kind == "embedding" ? 1 : 0;
  return p.slot == ids && p.from == p.to;
}
bool rows_taken(const Place& p) {
  return p.slot == 1 && p.from == p.to;
}

bool recurrent(const Place& p) {
  return p.to == 1 && p.from == (p.slot == 0 ? 1 : 0);
}

using Rule = bool (*)(const Place&);

struct Rules {
  Rule rule;
  std::vector<std::string_view> kinds;
};

const std::vector<Rules>& named_rules() {
  static const std::vector<Rules> rules = {
      {aligned, {"expand", "matmul", "linear"}},
      {reduced, {"sum", "mean", "amax", "amin", "prod", "logsumexp", "var", "argmax", "argmin"}},
      {along_another_axis,
       {"cumsum", "softmax", "log_softmax", "slice", "concat", "roll", "index_select", "gather",
        "scatter_add"}},
      {along_other_axes, {"flip"}},
      {permuted, {"permute"}},
      {regrouped, {"reshape"}},
      {in_front,
       {"conv", "conv_transpose", "image_linear", "batch_norm", "group_norm", "attention", "resize",
        "max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool"}},
      {padded_elsewhere, {"pad", "pad_reflect", "pad_replicate", "pad_circular"}},
      {normalised, {"layer_norm", "rms_norm"}},
      {looked_up, {"embedding"}},
      {rows_taken, {"take_rows"}},
      {recurrent, {"lstm", "gru"}},
  };
  return rules;
}

// Returns the rule of a kind; nullptr: there is none.
Rule rule_of(const std::string& kind) {
  static const std::set<std::string, std::less<>> element_wise = [] {
    std::set<std::string, std::less<>> names;
    for (const auto topic : {elementwise_kinds, integer_kinds})
      for (const Kind& k : topic()) names.insert(k.name);
    return names;
  }();
  if (element_wise.contains(kind)) return aligned;
  for (const Rules& rules : named_rules())
    if (std::ranges::find(rules.kinds, kind) != rules.kinds.end()) return rules.rule;
  return nullptr;
}

// Follows the samples through the nodes.
class SampleAxes {
 public:
  explicit SampleAxes(const ModelProgram& program)
      : program_(program),
        has_samples_(program.values.size(), false),
        apart_(program.values.size(), false),
        content_(program.values.size(), false),
        of_all_(program.values.size(), false) {
    for (const ModelInput& input : program.inputs) {
      at(has_samples_, input.value) = true;
      at(apart_, input.value) = true;
      at(content_, input.value) = true;
    }
    for (const ModelNode& node : program.nodes) visit(node);
  }

  // Whether the samples of the value are apart, along its first axis.
  bool rows(ValueId id) const { return at(apart_, id) && axis(id) == 0; }
  // Whether an element of the value depends on samples or on their number.
  bool involved(ValueId id) const { return at(has_samples_, id) || axis(id) != kNoAxis; }
  // Whether an element of the value depends on a reduction over the samples.
  bool of_all(ValueId id) const { return at(of_all_, id); }

 private:
  static std::vector<bool>::reference at(std::vector<bool>& list, ValueId id) {
    return list[static_cast<std::size_t>(id)];
  }
  static bool at(const std::vector<bool>& list, ValueId id) {
    return list[static_cast<std::size_t>(id)];
  }
  const ModelValue& value(ValueId id) const {
    return program_.values[static_cast<std::size_t>(id)];
  }
  int axis(ValueId id) const { return sample_axis(value(id)); }

  void visit(const ModelNode& node) {
    // A value that has lost the axis of the samples is of all of them, and what it is part of, too.
    const auto any_input = [&](auto&& holds) {
      return std::ranges::any_of(node.inputs,
                                 [&](ValueId id) { return id != kNoValue && holds(id); });
    };
    // An evaluation reads the content that a state has, which does not depend on its samples.
    if (node.kind == kSetState) return;
    const bool from_samples = any_input([&](ValueId id) { return involved(id); });
    const bool of_all = any_input([&](ValueId id) { return at(of_all_, id); });
    const bool content = any_input([&](ValueId id) { return at(content_, id); });
    const bool along_samples =
        any_input([&](ValueId id) { return at(content_, id) && axis(id) != kNoAxis; });
    for (const ValueId id : node.outputs) {
      at(content_, id) = content;
      at(of_all_, id) = of_all || (along_samples && axis(id) == kNoAxis);
      at(has_samples_, id) = from_samples;
      at(apart_, id) = axis(id) >= 0 && keeps_apart(node, id);
    }
  }

  bool keeps_apart(const ModelNode& node, ValueId y) const {
    const Rule rule = rule_of(node.kind);
    // A random number belongs to its place alone.
    const bool draws = node.kind == "uniform" || node.kind == "normal";
    if (rule == nullptr && !draws) return false;
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const ValueId x = node.inputs[slot];
      if (x == kNoValue || !involved(x)) continue;
      const Place place{node, value(x), value(y), slot, axis(x), axis(y)};
      if (!at(apart_, x) || !same_samples(place) || !rule(place)) return false;
    }
    return true;
  }

  // Element i of one operand and element i of another belong to one sample only if both have as
  // many elements for each sample. A reshape has one operand.
  static bool same_samples(const Place& p) {
    const auto elements = [](const ModelValue& value, int axis) {
      return value.dims[static_cast<std::size_t>(axis)].size;
    };
    return p.node.kind == "reshape" || elements(p.x, p.from) == elements(p.y, p.to);
  }

  const ModelProgram& program_;
  std::vector<bool> has_samples_;  // [value]: computed from the samples or their number
  std::vector<bool> apart_;        // [value]: each index of its axis belongs to one sample
  std::vector<bool> content_;      // [value]: computed from the content of samples
  std::vector<bool> of_all_;       // [value]: computed from a reduction over the samples
};

}  // namespace

bool rows_are_of_samples(const ModelProgram& program, const ModelNode& loss) {
  const SampleAxes axes(program);
  // The weights of classes, for example, have no samples.
  return axes.rows(loss.inputs[0]) && std::ranges::all_of(loss.inputs, [&](ValueId id) {
           return id == kNoValue || axes.rows(id) || !axes.involved(id);
         });
}

bool has_other_samples(const ModelProgram& program, const ModelNode& loss) {
  const SampleAxes axes(program);
  return std::ranges::any_of(loss.inputs, [&](ValueId id) {
    return id != kNoValue &&
           (axes.of_all(id) ||
            sample_axis(program.values[static_cast<std::size_t>(id)]) == kSeveralAxes);
  });
}

bool depends_on_mini_batch(const ModelProgram& program, ValueId value) {
  return SampleAxes(program).of_all(value);
}

}  // namespace es::gpu
