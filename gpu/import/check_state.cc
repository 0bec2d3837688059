#include "gpu/import/check_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/import/kind.h"
#include "proto/base/number_text.h"
#include "proto/base/text.h"

namespace es::gpu {
namespace {

constexpr std::size_t kNameBytesMax = 512;
constexpr std::int64_t kStateWordsMax = std::int64_t{1} << 28;  // of all states: 1 GiB

std::string at(const char* list, std::size_t index, const char* field) {
  return std::string(list) + "[" + std::to_string(index) + "]" + field;
}

// Checks names, and that those of one scope differ.
class Names {
 public:
  Status add(const std::string& path, std::string_view name) {
    ES_RETURN_IF_ERROR(check(path, name));
    if (name.empty()) return usage_error(path + " is empty");
    if (!names_.insert(name).second)
      return usage_error(path + " = \"" + escaped(name) + "\" is used twice");
    return {};
  }
  // Checks a text that need not be unique.
  static Status check(const std::string& path, std::string_view text) {
    if (text.size() > kNameBytesMax)
      return usage_error(path + " has " + std::to_string(text.size()) +
                         " bytes: allowed are at most " + std::to_string(kNameBytesMax));
    if (!is_utf8(text)) return usage_error(path + " = \"" + escaped(text) + "\" is not UTF-8");
    return {};
  }

 private:
  std::set<std::string_view> names_;
};

class StateCheck {
 public:
  StateCheck(const ModelProgram& program, std::span<const ValueInfo> values)
      : p_(program), values_(values) {}

  Status run() {
    ES_RETURN_IF_ERROR(texts());
    ES_RETURN_IF_ERROR(inputs());
    ES_RETURN_IF_ERROR(parameters());
    ES_RETURN_IF_ERROR(statistics());
    ES_RETURN_IF_ERROR(states());
    ES_RETURN_IF_ERROR(buffers());
    ES_RETURN_IF_ERROR(constants());
    return outputs();
  }

 private:
  const ModelValue& value(ValueId id) const { return p_.values[static_cast<std::size_t>(id)]; }

  // Whether a further program has a statistic or state of this name. Its own check sees to it that
  // a node uses it there.
  template <class Item>
  bool is_used_elsewhere(std::vector<Item> ModelProgram::*list, const std::string& name) const {
    return std::ranges::any_of(p_.programs, [&](const ModelProgram& further) {
      return std::ranges::find(further.*list, name, &Item::name) != (further.*list).end();
    });
  }

  bool has_batch(ValueId id) const {
    const std::vector<ModelDim>& dims = value(id).dims;
    return std::any_of(dims.begin(), dims.end(), [](const ModelDim& d) { return d.per_batch; });
  }

  Status texts() {
    ES_RETURN_IF_ERROR(Names::check("producer", p_.producer));
    ES_RETURN_IF_ERROR(Names::check("name", p_.name));
    for (std::size_t n = 0; n < p_.nodes.size(); ++n) {
      ES_RETURN_IF_ERROR(Names::check(at("nodes", n, ".kind"), p_.nodes[n].kind));
      ES_RETURN_IF_ERROR(Names::check(at("nodes", n, ".name"), p_.nodes[n].name));
      ES_RETURN_IF_ERROR(Names::check(at("nodes", n, ".source"), p_.nodes[n].source));
    }
    return {};
  }

  Status inputs() {
    Names names;
    if (p_.inputs.empty()) return usage_error("inputs is empty: a sample needs a field");
    for (std::size_t i = 0; i < p_.inputs.size(); ++i) {
      const ModelInput& input = p_.inputs[i];
      ES_RETURN_IF_ERROR(names.add(at("inputs", i, ".name"), input.name));
      const std::vector<ModelDim>& dims = value(input.value).dims;
      // A sample is one index of the first axis, so a loader can put samples together to a
      // mini-batch.
      const bool batched =
          !dims.empty() && dims[0] == ModelDim{1, true} &&
          std::none_of(dims.begin() + 1, dims.end(), [](const ModelDim& d) { return d.per_batch; });
      if (!batched)
        return usage_error(at("inputs", i, ".value") + " = " + std::to_string(input.value) +
                           ": its extents must be 1 per batch, then those of a sample");
      if (value(input.value).type == ValueType::kI64)
        return usage_error(at("inputs", i, ".value") + " = " + std::to_string(input.value) +
                           ": allowed is f32, i32 or bool");
      if (input.low > input.high)
        return usage_error(at("inputs", i, ".low") + " = " + std::to_string(input.low) +
                           ": allowed is at most high = " + std::to_string(input.high));
    }
    return {};
  }

  Status parameters() {
    for (std::size_t i = 0; i < p_.parameters.size(); ++i) {
      const ModelParameter& parameter = p_.parameters[i];
      ES_RETURN_IF_ERROR(state_.add(at("parameters", i, ".name"), parameter.name));
      for (std::size_t a = 0; a < parameter.aliases.size(); ++a)
        ES_RETURN_IF_ERROR(state_.add(
            at("parameters", i, ".aliases") + "[" + std::to_string(a) + "]", parameter.aliases[a]));
      if (value(parameter.value).type != ValueType::kF32 || has_batch(parameter.value))
        return usage_error(at("parameters", i, ".value") + " = " + std::to_string(parameter.value) +
                           ": allowed is f32 without extents per batch");
      ES_RETURN_IF_ERROR(initial_value(at("parameters", i, ".init"), parameter));
    }
    return {};
  }

  static Status initial_value(const std::string& path, const ModelParameter& parameter) {
    constexpr float kMost = 1e30F;
    if (!parameter.init) return {};
    const auto [constant, bound] = *parameter.init;
    // The comparisons are written so that NaN is refused as well.
    if (!(std::abs(constant) <= kMost))
      return usage_error(path + ".constant = " + number_text(constant) +
                         ": allowed is -1e30 to 1e30");
    if (!(bound >= 0.0F && bound <= kMost))
      return usage_error(path + ".bound = " + number_text(bound) + ": allowed is 0 to 1e30");
    return {};
  }

  // Every statistic is the mean or the variance of a batch norm, and those that share one share the
  // other, because the import finds the pair by its mean (Lowering::statistics).
  Status statistics() {
    std::vector<std::int64_t> partner(p_.statistics.size(), -1);
    for (std::size_t i = 0; i < p_.statistics.size(); ++i) {
      ES_RETURN_IF_ERROR(state_.add(at("statistics", i, ".name"), p_.statistics[i].name));
      if (p_.statistics[i].size < 1 || p_.statistics[i].size > kValueElementsMax)
        return usage_error(at("statistics", i, ".size") + " = " +
                           std::to_string(p_.statistics[i].size) + ": allowed is 1 to 2^40");
    }
    for (std::size_t n = 0; n < p_.nodes.size(); ++n)
      if (p_.nodes[n].kind == "batch_norm") ES_RETURN_IF_ERROR(batch_norm(n, partner));
    for (std::size_t i = 0; i < partner.size(); ++i)
      if (partner[i] < 0 && !is_used_elsewhere(&ModelProgram::statistics, p_.statistics[i].name))
        return usage_error(at("statistics", i, "") + " is used by no node: allowed is 1 or more");
    return {};
  }

  Status batch_norm(std::size_t n, std::vector<std::int64_t>& partner) const {
    const ModelNode& node = p_.nodes[n];
    if (node.inputs.empty() || node.inputs[0] == kNoValue)
      return usage_error(at("nodes", n, ".inputs") + "[0] is missing: batch_norm needs its x");
    const TensorShape& x = values_[static_cast<std::size_t>(node.inputs[0])].shape;
    std::int64_t pair[2] = {0, 0};  // the mean and the variance
    for (const ModelAttribute& a : node.attributes) {
      const bool variance = a.name == "variance";
      if (a.name != "mean" && !variance) continue;
      const std::string path = at("nodes", n, ".attributes") + " \"" + a.name + "\" = ";
      // The attributes have been checked, so this one is an integer.
      const std::int64_t index = std::get<std::int64_t>(a.value);
      if (index < 0 || static_cast<std::size_t>(index) >= partner.size())
        return usage_error(path + std::to_string(index) +
                           ": allowed is an index of statistics, 0 to " +
                           std::to_string(static_cast<std::int64_t>(partner.size()) - 1));
      const ModelStatistic& s = p_.statistics[static_cast<std::size_t>(index)];
      if (s.is_variance != variance || x.rank() < 2 || s.size != x[1])
        return usage_error(path + std::to_string(index) + ": the statistic is " +
                           (s.is_variance ? "a variance" : "a mean") + " of " +
                           std::to_string(s.size) + " channels, but x is " + shape_text(x));
      pair[variance ? 1 : 0] = index;
    }
    for (const int i : {0, 1}) {
      // The mean knows its variance and the variance its mean.
      std::int64_t& known = partner[static_cast<std::size_t>(pair[i])];
      if (known < 0) known = pair[1 - i];
      if (known != pair[1 - i])
        return usage_error(at("nodes", n, ".attributes") + ": statistics " +
                           std::to_string(pair[0]) + " and " + std::to_string(pair[1]) +
                           " belong to another node together with " + std::to_string(known));
    }
    return {};
  }

  // Every state has a fixed shape, and one node that gives it new content of the same kind.
  Status states() {
    std::int64_t words = 0;
    for (std::size_t i = 0; i < p_.states.size(); ++i) {
      const ModelState& s = p_.states[i];
      ES_RETURN_IF_ERROR(state_.add(at("states", i, ".name"), s.name));
      const ValueInfo& info = values_[static_cast<std::size_t>(s.value)];
      if (has_batch(s.value))
        return usage_error(at("states", i, ".value") + " = " + std::to_string(s.value) +
                           ": a state has no extent per batch");
      const std::string allowed = state_dtypes(info.type);
      if (s.dtype.empty() || (" " + allowed + ",").find(" " + s.dtype + ",") == std::string::npos)
        return usage_error(at("states", i, ".dtype") + " = \"" + escaped(s.dtype.substr(0, 64)) +
                           "\": allowed for " + type_name(info.type) + " is " + allowed);
      if (info.shape.count() > kStateWordsMax - words)
        return usage_error(at("states", i, "") + ": the states have more than " +
                           std::to_string(kStateWordsMax) +
                           " elements: allowed are at most as many");
      words += info.shape.count();
    }
    return state_writers();
  }

  Status state_writers() const {
    std::vector<std::int64_t> writer(p_.states.size(), -1);
    for (std::size_t n = 0; n < p_.nodes.size(); ++n) {
      const ModelNode& node = p_.nodes[n];
      if (node.kind != kSetState) continue;
      // The attributes have been checked, and set_state has only this one.
      const std::int64_t index = std::get<std::int64_t>(node.attributes[0].value);
      const std::string path =
          at("nodes", n, ".attributes") + " \"state\" = " + std::to_string(index);
      if (static_cast<std::size_t>(index) >= writer.size())
        return usage_error(path + ": allowed is an index of states, 0 to " +
                           std::to_string(static_cast<std::int64_t>(writer.size()) - 1));
      std::int64_t& known = writer[static_cast<std::size_t>(index)];
      if (known >= 0)
        return usage_error(path + ": nodes[" + std::to_string(known) +
                           "] writes this state already");
      known = static_cast<std::int64_t>(n);
      const ValueId state = p_.states[static_cast<std::size_t>(index)].value;
      if (!node.inputs.empty() && node.inputs[0] != kNoValue &&
          value(node.inputs[0]) != value(state))
        return usage_error(path + ": x is " +
                           value_text(values_[static_cast<std::size_t>(node.inputs[0])]) +
                           ": allowed is " + value_text(values_[static_cast<std::size_t>(state)]) +
                           ", as the state is");
    }
    for (std::size_t i = 0; i < writer.size(); ++i)
      if (writer[i] < 0 && !is_used_elsewhere(&ModelProgram::states, p_.states[i].name))
        return usage_error(at("states", i, "") +
                           " is written by no node: allowed is one set_state");
    return {};
  }

  // The types that a state may have in the state dict.
  static std::string state_dtypes(ValueType type) {
    switch (type) {
      case ValueType::kF32:
        return "F32";
      case ValueType::kI32:
        return "I64, I32, I16, I8, U8";
      case ValueType::kBool:
        return "BOOL";
      case ValueType::kI64:
        break;
    }
    return "none";
  }

  Status buffers() {
    for (std::size_t i = 0; i < p_.buffers.size(); ++i) {
      const ModelBuffer& b = p_.buffers[i];
      ES_RETURN_IF_ERROR(state_.add(at("buffers", i, ".name"), b.name));
      const std::int64_t element = element_bytes(b.dtype);
      if (element == 0)
        return usage_error(at("buffers", i, ".dtype") + " = \"" + escaped(b.dtype.substr(0, 64)) +
                           "\": allowed are BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64");
      ES_RETURN_IF_ERROR(buffer_size(i, b, element));
    }
    return {};
  }

  static std::int64_t element_bytes(std::string_view dtype) {
    for (const std::string_view one : {"BOOL", "U8", "I8"})
      if (dtype == one) return 1;
    for (const std::string_view two : {"I16", "F16", "BF16"})
      if (dtype == two) return 2;
    if (dtype == "I32" || dtype == "F32") return 4;
    return dtype == "I64" || dtype == "F64" ? 8 : 0;
  }

  static Status buffer_size(std::size_t i, const ModelBuffer& b, std::int64_t element) {
    const auto bytes = static_cast<std::int64_t>(b.bytes.size());
    std::int64_t expected = element;
    for (const std::int64_t extent : b.shape) {
      // Extents of 0 are allowed: PyTorch has empty buffers.
      if (extent < 0 || (extent > 0 && expected > kValueElementsMax / extent))
        return usage_error(at("buffers", i, ".shape") + " has the extent " +
                           std::to_string(extent) + ": it does not fit the " +
                           std::to_string(bytes) + " bytes");
      expected *= extent;
    }
    if (expected == bytes) return {};
    return usage_error(at("buffers", i, ".bytes") + " has " + std::to_string(bytes) +
                       " bytes: allowed are " + std::to_string(expected) + " for its shape");
  }

  Status constants() {
    for (std::size_t i = 0; i < p_.constants.size(); ++i) {
      const ModelConstant& c = p_.constants[i];
      ES_RETURN_IF_ERROR(Names::check(at("constants", i, ".name"), c.name));
      const ValueInfo& info = values_[static_cast<std::size_t>(c.value)];
      if (has_batch(c.value))
        return usage_error(at("constants", i, ".value") + " = " + std::to_string(c.value) +
                           ": a constant has no extent per batch");
      const std::int64_t words = info.shape.count() * (info.type == ValueType::kI64 ? 2 : 1);
      if (static_cast<std::int64_t>(c.words.size()) != words)
        return usage_error(at("constants", i, ".words") + " has " + std::to_string(c.words.size()) +
                           " words: allowed are " + std::to_string(words) + " for " +
                           value_text(info));
      const bool truth =
          // Truth values become the floats 1 and 0, so no other word may stand for one.
          std::all_of(c.words.begin(), c.words.end(), [](std::uint32_t word) { return word <= 1; });
      if (info.type == ValueType::kBool && !truth)
        return usage_error(at("constants", i, ".words") + ": allowed for bool are 0 and 1");
    }
    return {};
  }

  Status outputs() {
    Names names;
    if (p_.outputs.empty())
      return usage_error("outputs is empty: an evaluation needs at least one");
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) {
      ES_RETURN_IF_ERROR(names.add(at("outputs", i, ".name"), p_.outputs[i].name));
      const ModelValue& v = value(p_.outputs[i].value);
      // An evaluation divides the rows of an output among the samples of the mini-batch.
      if (v.type != ValueType::kF32 || v.dims.empty() || !v.dims[0].per_batch)
        return usage_error(at("outputs", i, ".value") + " = " +
                           std::to_string(p_.outputs[i].value) +
                           ": allowed is f32 whose first extent is per batch");
    }
    return {};
  }

  const ModelProgram& p_;
  std::span<const ValueInfo> values_;
  Names state_;  // the names of the state dict
};

}  // namespace

Status check_state(const ModelProgram& program, std::span<const ValueInfo> values) {
  return StateCheck(program, values).run();
}

}  // namespace es::gpu
