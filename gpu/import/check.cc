#include "gpu/import/check.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gpu/import/check_parts.h"
#include "gpu/import/check_updates.h"
#include "gpu/import/kind.h"
#include "gpu/import/values.h"
#include "proto/base/text.h"

namespace es::gpu {
namespace {

// A model file comes from a user, so the lengths of its lists are limited before anything is built
// from them.
constexpr std::size_t kCountMax = 1000000;  // values, nodes, inputs, outputs and parameters
constexpr std::size_t kListMax = 4096;      // inputs, outputs and attributes of one node
constexpr std::size_t kProgramsMax = 64;    // each has its own plan of memory and of kernels

Status check_count(const char* path, std::size_t count, std::size_t most) {
  if (count <= most) return {};
  return usage_error(std::string(path) + " has " + std::to_string(count) +
                     " entries: allowed are at most " + std::to_string(most));
}

// Every model has one format, so that it has one digest.
Status check_format(const ModelProgram& p) {
  std::uint32_t format = p.states.empty() ? kModelFormat : kModelFormatWithStates;
  for (const ModelValue& value : p.values)
    if (value.type == ValueType::kI64) format = kModelFormatWithLongs;
  for (const ModelNode& node : p.nodes)
    if (const Kind* kind = find_kind(node.kind)) format = std::max(format, kind->format);
  if (!p.updates.empty()) format = kModelFormatWithUpdates;
  if (!p.programs.empty()) format = kModelFormatWithPrograms;
  for (const ModelNumbers& numbers : p.numbers)
    if (numbers.reductions != 0) format = kModelFormatWithReductions;
  if (p.format == format) return {};
  return usage_error("format = " + std::to_string(p.format) + ": allowed is " +
                     std::to_string(format) + " for a model " +
                     (format == kModelFormatWithReductions ? "with numbers of lowered rates"
                      : format == kModelFormatWithPrograms ? "with further programs"
                      : format == kModelFormatWithUpdates  ? "with updates"
                      : format == kModelFormatWithLongs ? "with integers of 64 bits or their kinds"
                      : p.states.empty()                ? "without states"
                                                        : "with states"));
}

Status check_counts(const ModelProgram& p) {
  ES_RETURN_IF_ERROR(check_count("values", p.values.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("inputs", p.inputs.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("parameters", p.parameters.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("statistics", p.statistics.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("states", p.states.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("buffers", p.buffers.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("constants", p.constants.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("nodes", p.nodes.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("outputs", p.outputs.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("numbers", p.numbers.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("updates", p.updates.size(), kCountMax));
  ES_RETURN_IF_ERROR(check_count("programs", p.programs.size(), kProgramsMax));
  return check_format(p);
}

// Follows the values in the order of execution: every value is written once, and before it is read.
// It also checks attributes, so what runs after it may rely on the kinds and on the types of the
// attributes.
class Definitions {
 public:
  explicit Definitions(const ModelProgram& program)
      : program_(program), defined_(program.values.size(), false) {}

  Status run() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i)
      ES_RETURN_IF_ERROR(define(program_.inputs[i].value, "inputs", i));
    for (std::size_t i = 0; i < program_.parameters.size(); ++i)
      ES_RETURN_IF_ERROR(define(program_.parameters[i].value, "parameters", i));
    for (std::size_t i = 0; i < program_.states.size(); ++i)
      ES_RETURN_IF_ERROR(define(program_.states[i].value, "states", i));
    for (std::size_t i = 0; i < program_.constants.size(); ++i)
      ES_RETURN_IF_ERROR(define(program_.constants[i].value, "constants", i));
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) ES_RETURN_IF_ERROR(node(n));
    ES_RETURN_IF_ERROR(read(program_.loss, "loss"));
    for (std::size_t i = 0; i < program_.outputs.size(); ++i)
      ES_RETURN_IF_ERROR(
          read(program_.outputs[i].value, "outputs[" + std::to_string(i) + "].value"));
    return {};
  }

 private:
  bool exists(ValueId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < defined_.size();
  }

  Status define(ValueId id, const char* list, std::size_t index) {
    return write(id, std::string(list) + "[" + std::to_string(index) + "].value");
  }

  Status write(ValueId id, const std::string& path) {
    if (!exists(id))
      return usage_error(path + " = " + std::to_string(id) + ": allowed is 0 to " +
                         std::to_string(static_cast<std::int64_t>(defined_.size()) - 1));
    if (defined_[static_cast<std::size_t>(id)])
      return usage_error(path + " = " + std::to_string(id) + ": the value is written twice");
    defined_[static_cast<std::size_t>(id)] = true;
    return {};
  }

  Status read(ValueId id, const std::string& path) const {
    if (exists(id) && defined_[static_cast<std::size_t>(id)]) return {};
    return usage_error(path + " = " + std::to_string(id) +
                       ": allowed is a value that an earlier node writes");
  }

  Status node(std::size_t index) {
    const ModelNode& n = program_.nodes[index];
    const std::string path = "nodes[" + std::to_string(index) + "]";
    ES_RETURN_IF_ERROR(check_count((path + ".inputs").c_str(), n.inputs.size(), kListMax));
    ES_RETURN_IF_ERROR(check_count((path + ".outputs").c_str(), n.outputs.size(), kListMax));
    ES_RETURN_IF_ERROR(check_count((path + ".attributes").c_str(), n.attributes.size(), kListMax));
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] != kNoValue)
        ES_RETURN_IF_ERROR(read(n.inputs[i], path + ".inputs[" + std::to_string(i) + "]"));
    for (std::size_t i = 0; i < n.outputs.size(); ++i)
      ES_RETURN_IF_ERROR(write(n.outputs[i], path + ".outputs[" + std::to_string(i) + "]"));
    return check_attributes(n, index);
  }

  const ModelProgram& program_;
  std::vector<bool> defined_;  // [value]
};

// --- The loss.

// Some losses compute their gradient at once, so nothing may follow them.
Status check_only_losses(const ModelProgram& p) {
  std::vector<bool> only_loss(p.values.size(), false);
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const ModelNode& node = p.nodes[n];
    const std::string path = "nodes[" + std::to_string(n) + "]";
    for (const ValueId id : node.inputs)
      if (id != kNoValue && only_loss[static_cast<std::size_t>(id)])
        return usage_error(path + " reads value " + std::to_string(id) +
                           ", which can only be the loss of the model");
    if (!find_kind(node.kind)->only_loss) continue;
    for (const ValueId id : node.outputs) {
      if (id != p.loss)
        return usage_error(path + ".outputs has value " + std::to_string(id) + ": allowed for " +
                           node.kind + " is the loss of the model, " + std::to_string(p.loss));
      only_loss[static_cast<std::size_t>(id)] = true;
    }
  }
  return {};
}

Status check_loss(const ModelProgram& p) {
  const ModelValue& loss = p.values[static_cast<std::size_t>(p.loss)];
  // A loss with extents would have no single gradient to begin with.
  if (loss.type != ValueType::kF32 || !loss.dims.empty())
    return usage_error("loss = " + std::to_string(p.loss) +
                       ": the value is no single number: allowed is f32 without extents");
  // A value is learned from if a trainable parameter influences it through numbers.
  std::vector<bool> trained(p.values.size(), false);
  for (const ModelParameter& parameter : p.parameters)
    trained[static_cast<std::size_t>(parameter.value)] = parameter.trainable;
  for (const ModelNode& n : p.nodes) {
    if (n.kind == "stop_gradient") continue;
    bool any = false;
    for (const ValueId id : n.inputs)
      any = any || (id != kNoValue && trained[static_cast<std::size_t>(id)]);
    for (const ValueId id : n.outputs)
      // Integers and truth values carry no gradient, so what is computed from them alone is not
      // learned.
      trained[static_cast<std::size_t>(id)] =
          any && p.values[static_cast<std::size_t>(id)].type == ValueType::kF32;
  }
  if (!trained[static_cast<std::size_t>(p.loss)])
    return usage_error("loss = " + std::to_string(p.loss) +
                       ": it depends on no parameter that is trained");
  return {};
}

}  // namespace

Status check_shapes(const ModelProgram& program, std::int64_t batch) {
  const Result<std::vector<ValueInfo>> values = values_at(program.values, batch);
  if (!values) return values.error();
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    ES_RETURN_IF_ERROR(check_node_shapes(program.nodes[n], n, *values));
  return {};
}

Status check_nodes(const ModelProgram& program, std::int64_t batch) {
  ES_RETURN_IF_ERROR(check_counts(program));
  const Result<std::vector<ValueInfo>> values = values_at(program.values, batch);
  if (!values) return values.error();
  ES_RETURN_IF_ERROR(Definitions(program).run());
  ES_RETURN_IF_ERROR(check_state(program, *values));
  ES_RETURN_IF_ERROR(check_only_losses(program));
  return check_shapes(program, batch);
}

Status check_with_loss(const ModelProgram& program) {
  // Every extent is size or size * batch. Two batch sizes distinguish a claim that holds for all of
  // them from one that holds for a single size by chance.
  ES_RETURN_IF_ERROR(check_nodes(program, 2));
  ES_RETURN_IF_ERROR(check_loss(program));
  return check_shapes(program, 3);
}

Status check_program(const ModelProgram& program) {
  ES_RETURN_IF_ERROR(check_with_loss(program));
  ES_RETURN_IF_ERROR(check_programs(program));
  return check_updates(program);
}

}  // namespace es::gpu
