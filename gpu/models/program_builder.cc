// ProgramBuilder: values, and the forms of tensors. program_nodes.cc has the calls of the models.
#include "gpu/models/program_builder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

template <class Number>
std::vector<std::uint8_t> bytes_of(const std::vector<double>& values) {
  const std::vector<Number> numbers(values.begin(), values.end());
  const auto bytes = std::as_bytes(std::span(numbers));
  std::vector<std::uint8_t> result(bytes.size());
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

}  // namespace

ProgramBuilder::ProgramBuilder(std::string model, std::int64_t batch, const SampleLayout& layout)
    : GraphBuilder(std::move(model), batch, layout) {
  program_.name = graph().name;
  for (const SampleField& field : layout.fields) add_input(field);
}

// --- Values.

ValueId ProgramBuilder::add_value(ValueType type, const Extents& extents, bool per_batch) {
  ModelValue value{.type = type, .dims = {}};
  for (const std::int64_t extent : extents) value.dims.push_back({.size = extent});
  // The first extent is stored as a number for each sample, so the file is valid for every size of
  // a mini-batch.
  if (per_batch && !extents.empty())
    value.dims[0] = {.size = extents[0] / graph().batch, .per_batch = true};
  program_.values.push_back(std::move(value));
  return static_cast<ValueId>(program_.values.size() - 1);
}

bool ProgramBuilder::per_batch(ValueId id) const {
  const std::vector<ModelDim>& dims = program_.values[static_cast<std::size_t>(id)].dims;
  return !dims.empty() && dims[0].per_batch;
}

ProgramBuilder::Extents ProgramBuilder::extents(ValueId id) const {
  Extents result;
  for (const ModelDim& dim : program_.values[static_cast<std::size_t>(id)].dims)
    result.push_back(dim.per_batch ? dim.size * graph().batch : dim.size);
  return result;
}

// The extents that give the same field again (program_layout() in gpu/import/import.h).
void ProgramBuilder::add_input(const SampleField& field) {
  const TensorId t = input(field.name);
  const bool is_image = field.name == "image" || field.width > 1;
  const bool is_ids = field.type == FieldType::kI32;
  Extents extents{graph().batch, field.height, field.channels};
  if (is_image) extents = pixels(t);
  while (!is_image && extents.size() > 1 && extents.back() == 1) extents.pop_back();
  const ValueId id = add_value(is_ids ? ValueType::kI32 : ValueType::kF32, extents, true);
  program_.inputs.push_back(
      {.name = field.name, .value = id, .low = field.low, .high = field.high});
  hold(t, is_image ? Form::kImage : Form::kRows, id);
}

TensorId ProgramBuilder::hold_constant(const std::string& name, TensorId y, ValueType type,
                                       std::vector<std::uint32_t> words) {
  if (failed()) return y;
  const ValueId id = add_value(type, type == ValueType::kI32 ? tokens(y) : whole(y), false);
  program_.constants.push_back({.name = name, .value = id, .words = std::move(words)});
  return hold(y, Form::kRows, id);
}

ValueId ProgramBuilder::parameter_value(ParamId id) {
  const ParamInfo& info = param(id);
  const ValueId value = add_value(ValueType::kF32, info.torch_shape, false);
  program_.parameters.push_back({.name = info.name,
                                 .aliases = {},
                                 .value = value,
                                 .init = ModelInit{info.init.constant, info.init.bound}});
  return value;
}

void ProgramBuilder::state_dict_buffer(BufferInfo info) {
  const bool is_i64 = info.dtype == "I64";
  ES_CHECK_MSG(is_i64 || info.dtype == "F32", info.name);
  // A buffer that only older versions of a library wrote is not part of the model file.
  if (info.current)
    program_.buffers.push_back(
        {.name = info.name,
         .dtype = info.dtype,
         .shape = info.torch_shape,
         .bytes = is_i64 ? bytes_of<std::int64_t>(info.values) : bytes_of<float>(info.values)});
  GraphBuilder::state_dict_buffer(std::move(info));
}

TensorId ProgramBuilder::constant(const std::string& name, TensorShape shape,
                                  std::vector<float> values) {
  // The words are taken before `values` is moved into the graph.
  std::vector<std::uint32_t> words(values.size());
  std::transform(values.begin(), values.end(), words.begin(),
                 [](float value) { return std::bit_cast<std::uint32_t>(value); });
  const TensorId y = GraphBuilder::constant(name, shape, std::move(values));
  return hold_constant(name, y, ValueType::kF32, std::move(words));
}

TensorId ProgramBuilder::constant_ids(const std::string& name, TensorShape shape,
                                      std::vector<std::int32_t> values) {
  std::vector<std::uint32_t> words(values.begin(), values.end());
  const TensorId y = GraphBuilder::constant_ids(name, shape, std::move(values));
  return hold_constant(name, y, ValueType::kI32, std::move(words));
}

ValueId ProgramBuilder::node(const char* kind, const std::string& name,
                             const std::vector<ValueId>& inputs, const Extents& extents,
                             Attributes attributes) {
  // What is computed from samples has one row for each sample, too.
  const bool of_samples = std::any_of(
      inputs.begin(), inputs.end(), [this](ValueId id) { return id != kNoValue && per_batch(id); });
  const ValueId y = add_value(ValueType::kF32, extents, of_samples);
  program_.nodes.push_back({.kind = kind,
                            .name = name,
                            .inputs = inputs,
                            .outputs = {y},
                            .attributes = std::move(attributes),
                            .source = {}});
  return y;
}

ValueId ProgramBuilder::reshaped(const std::string& name, ValueId x, const Extents& to) {
  if (extents(x) == to) return x;
  const ValueId y = node("reshape", name, {x}, to);
  // node() gives floats. A reshape of ids keeps the type of its input.
  const ValueType type = program_.values[static_cast<std::size_t>(x)].type;
  program_.values[static_cast<std::size_t>(y)].type = type;
  return y;
}

ValueId ProgramBuilder::permuted(const std::string& name, ValueId x, const Extents& order) {
  const Extents from = extents(x);
  Extents to;
  for (const std::int64_t axis : order) to.push_back(from[static_cast<std::size_t>(axis)]);
  return node("permute", name, {x}, to, {{"order", order}});
}

// --- The forms of tensors.

ProgramBuilder::Forms& ProgramBuilder::forms(TensorId t) {
  const auto found = forms_.find(t);
  ES_CHECK_MSG(found != forms_.end(), "an operator of " + program_.name + " has no node");
  return found->second;
}

TensorId ProgramBuilder::hold(TensorId t, Form form, ValueId id) {
  Forms& held = forms_.try_emplace(t, Forms{.made = form, .rows = {}}).first->second;
  if (form == Form::kImage)
    held.image = id;
  else
    held.rows.emplace(extents(id), id);
  return t;
}

ProgramBuilder::Extents ProgramBuilder::whole(TensorId t) const {
  const ImageShape s = GraphBuilder::image(t);
  return {s.n, s.h, s.w, s.c};
}

ProgramBuilder::Extents ProgramBuilder::tokens(TensorId t) const {
  const ImageShape s = GraphBuilder::image(t);
  Extents result{s.n};
  if (s.h > 1 || s.w > 1) result.push_back(s.h);
  if (s.w > 1) result.push_back(s.w);
  if (s.c > 1 || type(t) == ElementType::kF32) result.push_back(s.c);
  return result;
}

ProgramBuilder::Extents ProgramBuilder::pixels(TensorId t) const {
  const ImageShape s = GraphBuilder::image(t);
  return {s.n, s.c, s.h, s.w};
}

ValueId ProgramBuilder::image(TensorId t) {
  if (forms(t).image == kNoValue) {
    const ValueId x = rows(t, whole(t));
    const bool one_pixel = shape(t)[Axis::kH] * shape(t)[Axis::kW] == 1;
    forms(t).image = one_pixel ? reshaped("", x, pixels(t)) : permuted("", x, {0, 3, 1, 2});
  }
  return forms(t).image;
}

ValueId ProgramBuilder::rows(TensorId t, const Extents& to) {
  Forms& held = forms(t);
  const auto found = held.rows.find(to);
  if (found != held.rows.end()) return found->second;
  // The tensor exists as an image only. The engine's order has the channels last, so the image is
  // permuted. With one pixel both orders are equal and a reshape is enough.
  if (held.rows.empty()) {
    const bool one_pixel = shape(t)[Axis::kH] * shape(t)[Axis::kW] == 1;
    const ValueId x = one_pixel ? held.image : permuted("", held.image, {0, 2, 3, 1});
    if (!one_pixel) held.rows.emplace(whole(t), x);
    return held.rows.insert_or_assign(to, reshaped("", x, to)).first->second;
  }
  return held.rows.emplace(to, reshaped("", held.rows.begin()->second, to)).first->second;
}

}  // namespace es::gpu
