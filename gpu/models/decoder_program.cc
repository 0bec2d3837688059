#include "gpu/models/decoder_program.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

// A field of documents (store/dataset/layouts.h).
constexpr const char* kPositions = "position_ids";

using DecoderDims = std::vector<ModelDim>;

DecoderDims plain_dims(const DecoderProgram::Extents& extents) {
  DecoderDims dims;
  for (const std::int64_t extent : extents) dims.push_back({.size = extent});
  return dims;
}

DecoderDims batched_dims(const DecoderProgram::Extents& extents) {
  DecoderDims dims = plain_dims(extents);
  dims.insert(dims.begin(), {.size = 1, .per_batch = true});
  return dims;
}

}  // namespace

DecoderProgram::DecoderProgram(std::string name, const SampleLayout& layout, double dropout)
    : length_(layout.fields.front().height),
      vocabulary_(std::int64_t{layout.fields.front().high} + 1),
      dropout_(dropout) {
  program_.name = std::move(name);
  for (const SampleField& field : layout.fields)
    program_.inputs.push_back({.name = field.name,
                               .value = add_value(ValueType::kI32, batched_dims({length_})),
                               .low = field.low,
                               .high = field.high});
}

ValueId DecoderProgram::input(const char* name) const {
  for (const ModelInput& input : program_.inputs)
    if (input.name == name) return input.value;
  return kNoValue;
}

ValueId DecoderProgram::add_value(ValueType type, DecoderDims dims) {
  program_.values.push_back({.type = type, .dims = std::move(dims)});
  return static_cast<ValueId>(program_.values.size() - 1);
}

ValueId DecoderProgram::node(const char* kind, const std::string& name,
                             const std::vector<ValueId>& inputs, DecoderDims dims,
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

ValueId DecoderProgram::permuted(const std::string& name, ValueId x, const Extents& order) {
  DecoderDims to;
  for (const std::int64_t axis : order) to.push_back(dims(x)[static_cast<std::size_t>(axis)]);
  return node("permute", name, {x}, std::move(to), {{"order", order}});
}

DecoderDims DecoderProgram::with_width(ValueId x, std::int64_t width) const {
  DecoderDims to = dims(x);
  to.back().size = width;
  return to;
}

// --- Values without a batch.

ValueId DecoderProgram::parameter(const std::string& name, const Extents& extents, ParamInit init) {
  const ValueId value = add_value(ValueType::kF32, plain_dims(extents));
  program_.parameters.push_back(
      {.name = name, .aliases = {}, .value = value, .init = ModelInit{init.constant, init.bound}});
  return value;
}

void DecoderProgram::tie(ValueId parameter, const std::string& alias) {
  for (ModelParameter& p : program_.parameters)
    if (p.value == parameter) p.aliases.push_back(alias);
}

ValueId DecoderProgram::constant(const std::string& name, const Extents& extents,
                                 const std::vector<float>& values) {
  const ValueId value = add_value(ValueType::kF32, plain_dims(extents));
  std::vector<std::uint32_t> words;
  for (const float v : values) words.push_back(std::bit_cast<std::uint32_t>(v));
  program_.constants.push_back({.name = name, .value = value, .words = std::move(words)});
  return value;
}

ValueId DecoderProgram::positions(const std::string& name, std::int64_t rows, std::int64_t width,
                                  WeightInit init) {
  const ValueId weight =
      parameter(name + ".weight", {rows, width}, embedding_init(init, rows, width));
  if (const ValueId given = input(kPositions); given != kNoValue)
    return node("embedding", name, {weight, given}, batched_dims({length_, width}));
  return node("embedding", name, {weight, places(name + ".ids")}, plain_dims({length_, width}));
}

ValueId DecoderProgram::places(const std::string& name) {
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(length_));
  std::iota(numbers.begin(), numbers.end(), 0U);
  const ValueId places = add_value(ValueType::kI32, plain_dims({length_}));
  program_.constants.push_back({.name = name, .value = places, .words = std::move(numbers)});
  return places;
}

// --- Layers.

ValueId DecoderProgram::embedding(const std::string& name, ValueId weight, std::int64_t width) {
  return node("embedding", name, {weight, ids()}, batched_dims({length_, width}));
}

ValueId DecoderProgram::linear(const std::string& name, ValueId x, std::int64_t out,
                               WeightInit init) {
  const ValueId weight =
      parameter(name + ".weight", {out, width(x)}, weight_init(init, width(x), out));
  return linear_with(name, x, out, weight);
}

ValueId DecoderProgram::linear_with(const std::string& name, ValueId x, std::int64_t out,
                                    ValueId weight) {
  return node("linear", name, {x, weight}, with_width(x, out));
}

ValueId DecoderProgram::conv1d(const std::string& name, ValueId x, std::int64_t out,
                               WeightInit init) {
  const ValueId weight =
      parameter(name + ".weight", {width(x), out}, weight_init(init, width(x), out));
  const ValueId bias = parameter(name + ".bias", {out}, bias_init(init, width(x)));
  // A product reads the weight where it lies, while a linear layer would need it transposed.
  return element_wise("add", name, node("matmul", name, {x, weight}, with_width(x, out)), {bias});
}

ValueId DecoderProgram::layer_norm(const std::string& name, ValueId x, double eps) {
  const ValueId weight = parameter(name + ".weight", {width(x)}, {.constant = 1.0F});
  const ValueId bias = parameter(name + ".bias", {width(x)}, {});
  return node("layer_norm", name, {x, weight, bias}, dims(x),
              {{"axes", std::int64_t{1}}, {"eps", eps}});
}

ValueId DecoderProgram::rms_norm(const std::string& name, ValueId x, double eps) {
  const ValueId weight = parameter(name + ".weight", {width(x)}, {.constant = 1.0F});
  return node("rms_norm", name, {x, weight}, dims(x), {{"axes", std::int64_t{1}}, {"eps", eps}});
}

ValueId DecoderProgram::dropout(const std::string& name, ValueId x) {
  if (dropout_ == 0.0) return x;
  return element_wise("dropout", name, x, {}, {{"p", dropout_}, {"site", next_site()}});
}

ValueId DecoderProgram::element_wise(const char* kind, const std::string& name, ValueId x,
                                     const std::vector<ValueId>& others,
                                     std::vector<ModelAttribute> attributes) {
  std::vector<ValueId> inputs{x};
  inputs.insert(inputs.end(), others.begin(), others.end());
  return node(kind, name, inputs, dims(x), std::move(attributes));
}

ValueId DecoderProgram::columns(const std::string& name, ValueId x, std::int64_t begin,
                                std::int64_t width) {
  const auto axis = static_cast<std::int64_t>(dims(x).size()) - 1;
  return node("slice", name, {x}, with_width(x, width),
              {{"axis", axis}, {"begin", begin}, {"end", begin + width}});
}

// --- Attention.

ValueId DecoderProgram::heads(const std::string& name, ValueId x, std::int64_t heads) {
  const ValueId split =
      node("reshape", name, {x}, batched_dims({length_, heads, width(x) / heads}));
  return permuted(name, split, {0, 2, 1, 3});
}

ValueId DecoderProgram::rotate(const std::string& name, ValueId x, ValueId cosine,
                               ValueId signed_sine) {
  const ValueId turned =
      node("roll", name, {x}, dims(x), {{"axis", std::int64_t{3}}, {"shift", width(x) / 2}});
  return element_wise("add", name, element_wise("mul", name, x, {cosine}),
                      {element_wise("mul", name, turned, {signed_sine})});
}

ValueId DecoderProgram::at_positions(const std::string& name, ValueId table) {
  const ValueId given = input(kPositions);
  if (given == kNoValue) return table;
  const std::int64_t d = width(table);
  const ValueId rows = node("take_rows", name, {table, given}, batched_dims({length_, d}));
  return node("reshape", name, {rows}, batched_dims({1, length_, d}));
}

// A document is contiguous, and the position of a token is the number of tokens before it.
ValueId DecoderProgram::document_starts() {
  const ValueId positions = input(kPositions);
  if (positions == kNoValue || document_starts_ != kNoValue) return document_starts_;
  const std::string name = "document_starts";
  return document_starts_ = node("sub", name, {places(name + ".places"), positions},
                                 batched_dims({length_}), {}, ValueType::kI32);
}

ValueId DecoderProgram::attention(const std::string& name, ValueId q, ValueId k, ValueId v) {
  std::vector<ModelAttribute> attributes{{"causal", true},
                                         {"scale", 1.0 / std::sqrt(static_cast<double>(width(q)))}};
  if (dropout_ > 0.0) {
    attributes.push_back({"dropout", dropout_});
    attributes.push_back({"site", next_site()});
  }
  std::vector<ValueId> inputs{q, k, v};
  if (const ValueId starts = document_starts(); starts != kNoValue)
    inputs.insert(inputs.end(), {kNoValue, kNoValue, kNoValue, starts});
  const ValueId context = node("attention", name, inputs, dims(q), std::move(attributes));
  const std::int64_t all = dims(q)[1].size * width(q);
  return node("reshape", name, {permuted(name, context, {0, 2, 1, 3})},
              batched_dims({length_, all}));
}

ModelProgram DecoderProgram::finish(ValueId logits, const ModelSpec& spec) && {
  // The classes of a cross entropy are axis 1.
  const ValueId classes = permuted("loss", logits, {0, 2, 1});
  const std::vector<ValueId> inputs{classes, input("labels")};
  const bool plain = spec.label_smoothing == 0.0 && spec.z_loss == 0.0;
  program_.loss = plain
                      ? node("cross_entropy", "loss", inputs, {}, {{"reduction", "mean"}})
                      : node("regularised_cross_entropy", "loss", inputs, {},
                             {{"label_smoothing", spec.label_smoothing}, {"z_loss", spec.z_loss}});
  program_.outputs.push_back({.name = "logits", .value = logits});
  return std::move(program_);
}

}  // namespace es::gpu
