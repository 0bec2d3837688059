#include "gpu/models/model_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

constexpr double kEps = 1e-5, kMomentum = 0.1;  // of batch norm
// A program stores these numbers as doubles. Its graph has the floats that the engine's kernels
// know.
static_assert(static_cast<float>(kEps) == kBatchNormEps);
static_assert(static_cast<float>(kMomentum) == kBatchNormMomentum);
constexpr double kSlope = 0.1;  // of its leaky ReLU
static_assert(static_cast<float>(kSlope) == kLeakySlope);

template <class Number>
std::vector<std::uint8_t> bytes_of(const std::vector<Number>& numbers) {
  std::vector<std::uint8_t> bytes(numbers.size() * sizeof(Number));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

template <class Number>
std::vector<std::uint32_t> words_of(const std::vector<Number>& numbers) {
  std::vector<std::uint32_t> words;
  for (const Number number : numbers) words.push_back(std::bit_cast<std::uint32_t>(number));
  return words;
}

// Samples hold images as [h,w,c]. The import reads the same field from these extents again
// (program_layout() in gpu/import/import.h).
ModelDims field_dims(const SampleField& field) {
  if (field.name == "image" || field.width > 1)
    return per_sample({field.channels, field.height, field.width});
  ModelDims dims = per_sample({field.height, field.channels});
  while (dims.size() > 1 && dims.back().size == 1) dims.pop_back();
  return dims;
}

std::int64_t windows(std::int64_t side, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding) {
  return (side + 2 * padding - kernel) / stride + 1;
}

}  // namespace

ModelDims fixed_dims(const Extents& extents) {
  ModelDims dims;
  for (const std::int64_t extent : extents) dims.push_back({.size = extent});
  return dims;
}

ModelDims rows_per_sample(const Extents& extents) {
  ModelDims dims = fixed_dims(extents);
  dims.front().per_batch = true;
  return dims;
}

ModelDims per_sample(const Extents& extents) {
  ModelDims dims = fixed_dims(extents);
  dims.insert(dims.begin(), {.size = 1, .per_batch = true});
  return dims;
}

// --- Values.

ModelWriter::ModelWriter(std::string name, const SampleLayout& layout)
    : ModelWriter(std::move(name)) {
  for (const SampleField& field : layout.fields) add_input(field, field_dims(field));
}

void ModelWriter::add_input(const SampleField& field, ModelDims dims) {
  const ValueType type = field.type == FieldType::kI32 ? ValueType::kI32 : ValueType::kF32;
  program_.inputs.push_back({.name = field.name,
                             .value = add_value(type, std::move(dims)),
                             .low = field.low,
                             .high = field.high});
}

ValueId ModelWriter::input(std::string_view field) const {
  const auto found = std::ranges::find(program_.inputs, field, &ModelInput::name);
  ES_CHECK_MSG(found != program_.inputs.end(), std::string(field));
  return found->value;
}

ValueId ModelWriter::add_value(ValueType type, ModelDims dims) {
  program_.values.push_back({.type = type, .dims = std::move(dims)});
  return static_cast<ValueId>(program_.values.size() - 1);
}

ValueId ModelWriter::parameter(const std::string& name, const Extents& extents, ParamInit init) {
  const ValueId value = add_value(ValueType::kF32, fixed_dims(extents));
  program_.parameters.push_back(
      {.name = name, .aliases = {}, .value = value, .init = ModelInit{init.constant, init.bound}});
  return value;
}

void ModelWriter::tie(ValueId parameter, const std::string& alias) {
  for (ModelParameter& p : program_.parameters)
    if (p.value == parameter) p.aliases.push_back(alias);
}

ValueId ModelWriter::add_constant(const std::string& name, ValueType type, const Extents& extents,
                                  std::vector<std::uint32_t> words) {
  const ValueId value = add_value(type, fixed_dims(extents));
  program_.constants.push_back({.name = name, .value = value, .words = std::move(words)});
  return value;
}

ValueId ModelWriter::constant(const std::string& name, const Extents& extents,
                              const std::vector<float>& values) {
  return add_constant(name, ValueType::kF32, extents, words_of(values));
}

ValueId ModelWriter::integers(const std::string& name, const Extents& extents,
                              const std::vector<std::int32_t>& values) {
  return add_constant(name, ValueType::kI32, extents, words_of(values));
}

void ModelWriter::buffer(const std::string& name, const Extents& extents,
                         const std::vector<std::int64_t>& values) {
  program_.buffers.push_back(
      {.name = name, .dtype = "I64", .shape = extents, .bytes = bytes_of(values)});
}

void ModelWriter::buffer(const std::string& name, const Extents& extents,
                         const std::vector<float>& values) {
  program_.buffers.push_back(
      {.name = name, .dtype = "F32", .shape = extents, .bytes = bytes_of(values)});
}

ValueId ModelWriter::node(const char* kind, const std::string& name,
                          const std::vector<ValueId>& inputs, ModelDims dims,
                          std::vector<ModelAttribute> attributes, ValueType type) {
  const ValueId y = add_value(type, std::move(dims));
  program_.nodes.push_back({.kind = kind,
                            .name = name,
                            .inputs = inputs,
                            .outputs = {y},
                            .attributes = std::move(attributes),
                            .source = {}});
  return y;
}

// --- Layers on images.

ValueId ModelWriter::conv(const std::string& name, ValueId x, const Conv2dOptions& o) {
  // PyTorch counts the fans of a convolution by the weight's shape [o,c/groups,kh,kw]: an output
  // reads c/groups channels at each tap, and the fan out is o times the taps, without regard to
  // groups.
  const std::int64_t channels = extent(x, 1) / o.groups, taps = o.kernel * o.kernel;
  std::vector<ValueId> inputs{x, parameter(name + ".weight", {o.out, channels, o.kernel, o.kernel},
                                           weight_init(o.init, channels * taps, o.out * taps))};
  if (o.bias)
    inputs.push_back(parameter(name + ".bias", {o.out}, bias_init(o.init, channels * taps)));
  return node("conv", name, inputs,
              per_sample({o.out, windows(extent(x, 2), o.kernel, o.stride, o.pad),
                          windows(extent(x, 3), o.kernel, o.stride, o.pad)}),
              {{"stride", Extents{o.stride, o.stride}},
               {"padding", Extents{o.pad, o.pad}},
               {"dilation", Extents{1, 1}},
               {"groups", o.groups}});
}

ValueId ModelWriter::batch_norm(const std::string& name, ValueId x, Activation activation) {
  const std::int64_t channels = extent(x, 1);
  const auto mean = static_cast<std::int64_t>(program_.statistics.size());
  program_.statistics.push_back({.name = name + ".running_mean", .size = channels});
  program_.statistics.push_back(
      {.name = name + ".running_var", .size = channels, .is_variance = true});
  const ValueId weight = parameter(name + ".weight", {channels}, {.constant = 1.0F});
  const ValueId bias = parameter(name + ".bias", {channels}, {});
  const ValueId y =
      node("batch_norm", name, {x, weight, bias}, dims(x),
           {{"eps", kEps}, {"momentum", kMomentum}, {"mean", mean}, {"variance", mean + 1}});
  switch (activation) {
    case Activation::kNone:
      return y;
    case Activation::kRelu:
      return relu(name + ".relu", y);
    case Activation::kLeakyRelu:
      return element_wise("leaky_relu", name + ".leaky_relu", y, {}, {{"slope", kSlope}});
  }
  return y;
}

ValueId ModelWriter::max_pool(const std::string& name, ValueId x, std::int64_t kernel,
                              std::int64_t stride, std::int64_t padding) {
  return node("max_pool", name, {x},
              per_sample({extent(x, 1), windows(extent(x, 2), kernel, stride, padding),
                          windows(extent(x, 3), kernel, stride, padding)}),
              {{"kernel", Extents{kernel, kernel}},
               {"stride", Extents{stride, stride}},
               {"padding", Extents{padding, padding}},
               {"dilation", Extents{1, 1}}});
}

ValueId ModelWriter::avg_pool(const std::string& name, ValueId x, std::int64_t h, std::int64_t w) {
  return node("adaptive_avg_pool", name, {x}, per_sample({extent(x, 1), h, w}),
              {{"size", Extents{h, w}}});
}

// The node sums in the order (h, w, c) in which the engine stores an image, so nothing moves.
ValueId ModelWriter::image_linear(const std::string& name, ValueId x, const LinearOptions& o) {
  const std::int64_t channels = extent(x, 1), pixels = extent(x, 2) * extent(x, 3);
  if (pixels == 1) return linear(name, reshape("", x, per_sample({channels})), o);
  return with_weights("image_linear", name, x, per_sample({o.out}), pixels * channels, o);
}

// --- Layers on the last axis.

ValueId ModelWriter::linear(const std::string& name, ValueId x, const LinearOptions& o) {
  ModelDims to = dims(x);
  to.back().size = o.out;
  return with_weights("linear", name, x, std::move(to), width(x), o);
}

ValueId ModelWriter::with_weights(const char* kind, const std::string& name, ValueId x,
                                  ModelDims dims, std::int64_t in, const LinearOptions& o) {
  std::vector<ValueId> inputs{
      x, parameter(name + ".weight", {o.out, in}, weight_init(o.init, in, o.out))};
  if (o.bias) inputs.push_back(parameter(name + ".bias", {o.out}, bias_init(o.init, in)));
  return node(kind, name, inputs, std::move(dims));
}

ValueId ModelWriter::layer_norm(const std::string& name, ValueId x, double eps) {
  const ValueId weight = parameter(name + ".weight", {width(x)}, {.constant = 1.0F});
  const ValueId bias = parameter(name + ".bias", {width(x)}, {});
  return node("layer_norm", name, {x, weight, bias}, dims(x),
              {{"axes", std::int64_t{1}}, {"eps", eps}});
}

ValueId ModelWriter::embedding(const std::string& parameter, ValueId ids, std::int64_t rows,
                               std::int64_t width, WeightInit init) {
  const ValueId weight =
      this->parameter(parameter, {rows, width}, embedding_init(init, rows, width));
  ModelDims to = dims(ids);
  to.push_back({.size = width});
  return node("embedding", parameter, {weight, ids}, std::move(to));
}

// --- Element by element.

ValueId ModelWriter::element_wise(const char* kind, const std::string& name, ValueId x,
                                  const std::vector<ValueId>& others,
                                  std::vector<ModelAttribute> attributes) {
  std::vector<ValueId> inputs{x};
  inputs.insert(inputs.end(), others.begin(), others.end());
  return node(kind, name, inputs, dims(x), std::move(attributes));
}

ValueId ModelWriter::gelu(const std::string& name, ValueId x, const char* approximate) {
  return element_wise("gelu", name, x, {}, {{"approximate", approximate}});
}

ValueId ModelWriter::random(const char* kind, const std::string& name, ValueId x, double p) {
  return p == 0.0 ? x : element_wise(kind, name, x, {}, {{"p", p}, {"site", sites_++}});
}

ValueId ModelWriter::dropout(const std::string& name, ValueId x, double p) {
  return random("dropout", name, x, p);
}

ValueId ModelWriter::sample_dropout(const std::string& name, ValueId x, double p) {
  return random("sample_dropout", name, x, p);
}

// --- Moves.

ValueId ModelWriter::reshape(const std::string& name, ValueId x, ModelDims to) {
  return dims(x) == to ? x : node("reshape", name, {x}, std::move(to), {}, value(x).type);
}

ValueId ModelWriter::permute(const std::string& name, ValueId x, const Extents& order) {
  ModelDims to;
  for (const std::int64_t axis : order) to.push_back(dims(x)[static_cast<std::size_t>(axis)]);
  return node("permute", name, {x}, std::move(to), {{"order", order}});
}

ValueId ModelWriter::slice(const std::string& name, ValueId x, std::size_t axis, std::int64_t begin,
                           std::int64_t end) {
  ModelDims to = dims(x);
  to[axis].size = end - begin;
  return node("slice", name, {x}, std::move(to),
              {{"axis", static_cast<std::int64_t>(axis)}, {"begin", begin}, {"end", end}});
}

ValueId ModelWriter::concat(const std::string& name, const std::vector<ValueId>& xs,
                            std::size_t axis) {
  ModelDims to = dims(xs.front());
  to[axis].size = 0;
  for (const ValueId x : xs) to[axis].size += extent(x, axis);
  return node("concat", name, xs, std::move(to), {{"axis", static_cast<std::int64_t>(axis)}});
}

// --- Attention.

ValueId ModelWriter::heads(const std::string& name, ValueId x, std::int64_t heads) {
  ModelDims to = dims(x);
  to.back().size = heads;
  to.push_back({.size = width(x) / heads});
  return permute(name, reshape(name, x, std::move(to)), {0, 2, 1, 3});
}

ValueId ModelWriter::attention(const std::string& name, ValueId q, ValueId k, ValueId v,
                               const AttentionTerms& terms) {
  std::vector<ModelAttribute> attributes;
  if (terms.causal) attributes.push_back({"causal", true});
  attributes.push_back({"scale", 1.0 / std::sqrt(static_cast<double>(width(q)))});
  if (terms.dropout > 0.0) {
    attributes.push_back({"dropout", terms.dropout});
    attributes.push_back({"site", sites_++});
  }
  std::vector<ValueId> inputs{q, k, v, terms.mask, terms.bias, terms.length, terms.first};
  // Optional inputs at the end are left out; those before a present one stay as gaps.
  while (inputs.back() == kNoValue) inputs.pop_back();
  const ValueId context = node("attention", name, inputs, dims(q), std::move(attributes));
  const ValueId by_token = permute(name, context, {0, 2, 1, 3});
  ModelDims to = dims(by_token);
  to.pop_back();
  to.back().size *= width(by_token);
  return reshape(name, by_token, std::move(to));
}

ValueId ModelWriter::cross_entropy(ValueId logits, ValueId labels) {
  return node("cross_entropy", "loss", {logits, labels}, {}, {{"reduction", "mean"}});
}

ModelProgram ModelWriter::finish(ValueId loss, const std::vector<ValueId>& outputs) && {
  program_.loss = loss;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    program_.outputs.push_back(
        {.name = outputs.size() == 1 ? "logits" : "logits_" + std::to_string(i),
         .value = outputs[i]});
  return std::move(program_);
}

}  // namespace es::gpu
