#include "tests/gpu/import/program_writer.h"

#include <algorithm>
#include <bit>

#include "gpu/import/kind.h"
#include "proto/base/check.h"

namespace es::test {
namespace {

using gpu::ValueInfo;

// The outputs of the last node at a batch size, by the shape rule of its kind.
ValueInfo first_output(const ModelProgram& program, std::int64_t batch) {
  const ModelNode& node = program.nodes.back();
  const gpu::Kind* const kind = gpu::find_kind(node.kind);
  ES_CHECK_MSG(kind != nullptr, node.kind);
  const auto values = gpu::values_at(program.values, batch);
  const gpu::NodeView view(*kind, node, program.nodes.size() - 1, *values);
  return (*kind->outputs(view))[0];
}

}  // namespace

Dims dims(std::initializer_list<std::int64_t> extents) {
  Dims all;
  for (const std::int64_t extent : extents) all.push_back({extent, false});
  return all;
}

Dims per_sample(std::initializer_list<std::int64_t> extents) {
  Dims all = dims(extents);
  all.insert(all.begin(), kBatchDim);
  return all;
}

ValueId ProgramWriter::value(ValueType type, Dims extents) {
  program.values.push_back({type, std::move(extents)});
  return static_cast<ValueId>(program.values.size() - 1);
}

ValueId ProgramWriter::input(const std::string& name, std::initializer_list<std::int64_t> extents) {
  return input_of(name, extents);
}

ValueId ProgramWriter::input_of(const std::string& name, const std::vector<std::int64_t>& extents) {
  Dims all{kBatchDim};
  for (const std::int64_t extent : extents) all.push_back({extent, false});
  const ValueId id = value(ValueType::kF32, std::move(all));
  program.inputs.push_back({.name = name, .value = id});
  return id;
}

ValueId ProgramWriter::ids(const std::string& name, std::initializer_list<std::int64_t> extents,
                           std::int32_t high) {
  const ValueId id = value(ValueType::kI32, per_sample(extents));
  program.inputs.push_back({.name = name, .value = id, .low = 0, .high = high});
  return id;
}

ValueId ProgramWriter::parameter(const std::string& name,
                                 std::initializer_list<std::int64_t> extents, bool trainable) {
  return parameter_of(name, extents, trainable);
}

ValueId ProgramWriter::parameter_of(const std::string& name,
                                    const std::vector<std::int64_t>& extents, bool trainable) {
  Dims all;
  for (const std::int64_t extent : extents) all.push_back({extent, false});
  const ValueId id = value(ValueType::kF32, std::move(all));
  program.parameters.push_back({.name = name, .value = id, .trainable = trainable});
  return id;
}

ValueId ProgramWriter::constant(std::initializer_list<std::int64_t> extents,
                                const std::vector<float>& values) {
  return constant_of(dims(extents), values);
}

ValueId ProgramWriter::constant_of(Dims extents, const std::vector<float>& values) {
  const ValueId id = value(ValueType::kF32, std::move(extents));
  ModelConstant c{.name = "constant" + std::to_string(id), .value = id};
  for (const float v : values) c.words.push_back(std::bit_cast<std::uint32_t>(v));
  program.constants.push_back(std::move(c));
  return id;
}

ValueId ProgramWriter::constant_ids(std::initializer_list<std::int64_t> extents,
                                    const std::vector<std::int32_t>& values) {
  const ValueId id = value(ValueType::kI32, dims(extents));
  program.constants.push_back({.name = "constant" + std::to_string(id),
                               .value = id,
                               .words = {values.begin(), values.end()}});
  return id;
}

ValueId ProgramWriter::node(const std::string& kind, const std::vector<ValueId>& inputs,
                            const std::vector<ModelAttribute>& attributes,
                            const std::string& name) {
  program.nodes.push_back({.kind = kind, .name = name, .inputs = inputs, .attributes = attributes});
  // An extent that differs between two batch sizes is a multiple of the batch size.
  const ValueInfo small = first_output(program, 7), large = first_output(program, 11);
  Dims extents;
  for (int axis = 0; axis < small.shape.rank(); ++axis) {
    const bool batch = small.shape[axis] != large.shape[axis];
    extents.push_back({batch ? small.shape[axis] / 7 : small.shape[axis], batch});
  }
  const ValueId id = value(small.type, std::move(extents));
  program.nodes.back().outputs = {id};
  return id;
}

ValueId ProgramWriter::shaped(const std::string& kind, ValueId x, const Dims& extents) {
  const ValueId id = value(program.values[static_cast<std::size_t>(x)].type, extents);
  program.nodes.push_back({.kind = kind, .inputs = {x}, .outputs = {id}});
  return id;
}

ValueId ProgramWriter::state(const std::string& name, std::initializer_list<std::int64_t> extents,
                             const std::string& dtype, ValueType type) {
  const ValueId id = value(type, dims(extents));
  program.states.push_back({.name = name, .dtype = dtype, .value = id});
  program.format = kModelFormatWithStates;
  return id;
}

ValueId ProgramWriter::draw(const std::string& kind, const Dims& extents, std::int64_t site) {
  const ValueId id = value(ValueType::kF32, extents);
  program.nodes.push_back({.kind = kind, .outputs = {id}, .attributes = {{"site", site}}});
  return id;
}

ValueId ProgramWriter::conv(const std::string& name, ValueId x, std::int64_t out,
                            std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  using Ints = std::vector<std::int64_t>;
  const ValueId weight = parameter(name + ".weight", {out, dims_of(x)[1].size, kernel, kernel});
  return node("conv", {x, weight},
              {{"stride", Ints{stride, stride}},
               {"padding", Ints{padding, padding}},
               {"dilation", Ints{1, 1}}},
              name);
}

ValueId ProgramWriter::batch_norm(const std::string& name, ValueId x) {
  const std::int64_t channels = dims_of(x)[1].size;
  const ValueId weight = parameter(name + ".weight", {channels});
  const ValueId bias = parameter(name + ".bias", {channels});
  const auto first = static_cast<std::int64_t>(program.statistics.size());
  program.statistics.push_back({name + ".running_mean", channels, false});
  program.statistics.push_back({name + ".running_var", channels, true});
  return node("batch_norm", {x, weight, bias},
              {{"eps", 1e-5}, {"momentum", 0.1}, {"mean", first}, {"variance", first + 1}}, name);
}

ValueId ProgramWriter::linear(const std::string& name, ValueId x, std::int64_t out) {
  const ValueId weight = parameter(name + ".weight", {out, dims_of(x).back().size});
  const ValueId bias = parameter(name + ".bias", {out});
  return node("linear", {x, weight, bias}, {}, name);
}

void ProgramWriter::classify(ValueId logits, ValueId labels) {
  program.loss = node("cross_entropy", {logits, labels}, {{"reduction", "mean"}}, "loss");
  output("logits", logits);
}

}  // namespace es::test
