#include "gpu/import/adapters.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "gpu/graph/weight_init.h"
#include "gpu/optim/parameter_groups.h"
#include "proto/base/text.h"

namespace es::gpu {
namespace {

constexpr std::string_view kWeightSuffix = ".weight";
constexpr std::string_view kSuffixA = ".lora_A.weight";
constexpr std::string_view kSuffixB = ".lora_B.weight";

// "layers.0.q_proj" of "layers.0.q_proj.weight"; another name stays as it is.
std::string_view module_of(std::string_view weight) {
  return weight.ends_with(kWeightSuffix) ? weight.substr(0, weight.size() - kWeightSuffix.size())
                                         : weight;
}

bool names_layer(std::string_view pattern, std::string_view weight) {
  return names_parameter(pattern, weight) || names_parameter(pattern, module_of(weight));
}

class AdapterWriter {
 public:
  AdapterWriter(ModelProgram program, const LoraSpec& lora)
      : program_(std::move(program)), lora_(lora), found_(lora.targets.size(), false) {
    for (std::size_t i = 0; i < program_.parameters.size(); ++i)
      parameter_[program_.parameters[i].value] = i;
    for (const ModelNode& node : program_.nodes)
      for (const ModelAttribute& attribute : node.attributes)
        if (attribute.name == "site")
          next_site_ = std::max(next_site_, std::get<std::int64_t>(attribute.value) + 1);
  }

  Result<ModelProgram> run() {
    if (!program_.statistics.empty())
      return usage_error("lora.rank = " + std::to_string(lora_.rank) +
                         ": allowed is 0 for a model with running statistics, such as \"" +
                         escaped(program_.statistics.front().name) + "\"");
    if (!program_.states.empty())
      return usage_error("lora.rank = " + std::to_string(lora_.rank) +
                         ": allowed is 0 for a model with states, such as \"" +
                         escaped(program_.states.front().name) + "\"");
    for (const ModelParameter& parameter : program_.parameters)
      if (is_adapter(parameter.name))
        return usage_error("lora.rank = " + std::to_string(lora_.rank) +
                           ": allowed is 0 for a model that has adapters of its own, such as \"" +
                           escaped(parameter.name) + "\"");
    for (ModelParameter& parameter : program_.parameters) parameter.trainable = false;
    const std::vector<ModelNode> nodes = std::exchange(program_.nodes, {});
    for (const ModelNode& node : nodes) {
      const std::string module = target_of(node);
      if (module.empty())
        program_.nodes.push_back(node);
      else
        add_adapted(node, module);
    }
    for (std::size_t i = 0; i < found_.size(); ++i)
      if (!found_[i]) return names_no_layer(i);
    return std::move(program_);
  }

 private:
  // The module whose name is targeted; empty: the node gets no adapters.
  std::string target_of(const ModelNode& node) {
    const ModelParameter* const weight = weight_of(node);
    if (weight == nullptr) return {};
    some_layer_ = module_of(weight->name);
    std::string module;
    for (std::size_t i = 0; i < lora_.targets.size(); ++i)
      for (const std::string& name : names_of(*weight)) {
        if (!names_layer(lora_.targets[i], name)) continue;
        found_[i] = true;
        if (module.empty()) module = module_of(name);
      }
    return module;
  }

  const ModelParameter* weight_of(const ModelNode& node) const {
    const bool is_layer =
        node.kind == "linear" || node.kind == "image_linear" || node.kind == "matmul";
    if (!is_layer) return nullptr;
    const auto found = parameter_.find(node.inputs[1]);
    if (found == parameter_.end() || dims(node.inputs[1]).size() != 2) return nullptr;
    return &program_.parameters[found->second];
  }

  static std::vector<std::string> names_of(const ModelParameter& parameter) {
    std::vector<std::string> names{parameter.name};
    names.insert(names.end(), parameter.aliases.begin(), parameter.aliases.end());
    return names;
  }

  struct Matrices {
    ValueId a = kNoValue, b = kNoValue;
  };

  // The layer writes a new value, and the sum with what the adapters compute takes its place.
  void add_adapted(const ModelNode& layer, const std::string& module) {
    const ValueId x = layer.inputs[0], y = layer.outputs[0];
    const Matrices matrices = matrices_of(layer, module);
    ModelNode base = layer;
    base.outputs = {add_value(dims(y))};
    program_.nodes.push_back(base);
    ValueId low = dropped(layer, module, x);
    // A flattened image has the order of the layer's own weight.
    const char* const first = layer.kind == "image_linear" ? "image_linear" : "linear";
    low = node(layer, first, module + ".lora_A", {low, matrices.a}, with_last(y, lora_.rank));
    ValueId change = node(layer, "linear", module + ".lora_B", {low, matrices.b}, dims(y));
    const double factor = lora_.alpha / lora_.rank;
    if (factor != 1.0)
      change =
          node(layer, "mul_scalar", module + ".lora_B", {change}, dims(y), {{"value", factor}});
    append(layer, "add", module, {base.outputs[0], change}, y, {});
  }

  ValueId dropped(const ModelNode& layer, const std::string& module, ValueId x) {
    if (lora_.dropout == 0.0) return x;
    return node(layer, "dropout", module + ".lora_dropout", {x}, dims(x),
                {{"p", lora_.dropout}, {"site", next_site_++}});
  }

  Matrices matrices_of(const ModelNode& layer, const std::string& module) {
    Matrices& matrices = matrices_[module];
    if (matrices.a != kNoValue) return matrices;
    const std::vector<ModelDim> weight = dims(layer.inputs[1]);
    const bool transposed = layer.kind == "matmul";  // its weight is [in,out]
    const std::int64_t in = weight[transposed ? 0 : 1].size, out = weight[transposed ? 1 : 0].size;
    const ParamInit init = weight_init({}, in, lora_.rank);
    matrices.a = add_parameter(adapter_a(module), lora_.rank, in, {init.constant, init.bound});
    matrices.b = add_parameter(adapter_b(module), out, lora_.rank, {});
    return matrices;
  }

  ValueId add_parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                        ModelInit init) {
    const ValueId value = add_value({{.size = rows}, {.size = columns}});
    program_.parameters.push_back({.name = name, .aliases = {}, .value = value, .init = init});
    return value;
  }

  ValueId add_value(std::vector<ModelDim> extents) {
    program_.values.push_back({.type = ValueType::kF32, .dims = std::move(extents)});
    return static_cast<ValueId>(program_.values.size() - 1);
  }

  ValueId node(const ModelNode& layer, const char* kind, const std::string& name,
               std::vector<ValueId> inputs, std::vector<ModelDim> extents,
               std::vector<ModelAttribute> attributes = {}) {
    const ValueId y = add_value(std::move(extents));
    append(layer, kind, name, std::move(inputs), y, std::move(attributes));
    return y;
  }

  void append(const ModelNode& layer, const char* kind, const std::string& name,
              std::vector<ValueId> inputs, ValueId output, std::vector<ModelAttribute> attributes) {
    program_.nodes.push_back({.kind = kind,
                              .name = name,
                              .inputs = std::move(inputs),
                              .outputs = {output},
                              .attributes = std::move(attributes),
                              .source = layer.source,
                              .region = layer.region});
  }

  std::vector<ModelDim> dims(ValueId id) const {
    return program_.values[static_cast<std::size_t>(id)].dims;
  }
  std::vector<ModelDim> with_last(ValueId id, std::int64_t size) const {
    std::vector<ModelDim> extents = dims(id);
    extents.back() = {.size = size};
    return extents;
  }

  Error names_no_layer(std::size_t target) const {
    return usage_error("lora.targets[" + std::to_string(target) + "] = \"" +
                       escaped(lora_.targets[target]) +
                       "\": allowed is the name of a linear layer" +
                       (some_layer_.empty() ? ", of which the model has none"
                                            : ", such as \"" + escaped(some_layer_) + "\""));
  }

  ModelProgram program_;
  const LoraSpec& lora_;
  std::map<ValueId, std::size_t> parameter_;  // places in the list of parameters
  std::map<std::string, Matrices> matrices_;  // by module
  std::vector<bool> found_;                   // [target]: it names a layer
  std::string some_layer_;
  std::int64_t next_site_ = 0;
};

}  // namespace

std::string adapter_a(std::string_view module) {
  return std::string(module) + std::string(kSuffixA);
}

std::string adapter_b(std::string_view module) {
  return std::string(module) + std::string(kSuffixB);
}

bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(kSuffixA) || parameter.ends_with(kSuffixB);
}

std::string module_of_a(std::string_view parameter) {
  if (!parameter.ends_with(kSuffixA)) return {};
  return std::string(parameter.substr(0, parameter.size() - kSuffixA.size()));
}

Result<ModelProgram> with_adapters(ModelProgram program, const LoraSpec& lora) {
  if (!program.programs.empty())
    return usage_error("lora.rank = " + std::to_string(lora.rank) +
                       ": allowed is 0 for a model file with several programs");
  return AdapterWriter(std::move(program), lora).run();
}

}  // namespace es::gpu
