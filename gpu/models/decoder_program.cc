#include "gpu/models/decoder_program.h"

#include <numeric>
#include <utility>
#include <vector>

namespace es::gpu {

DecoderProgram::DecoderProgram(std::string name, const SampleLayout& layout, double dropout)
    : ModelWriter(std::move(name)),
      length_(layout.fields.front().height),
      vocabulary_(std::int64_t{layout.fields.front().high} + 1),
      dropout_(dropout) {
  for (const SampleField& field : layout.fields) {
    // Also a window of one token has an axis of tokens.
    add_input(field, per_sample({length_}));
    // A field of documents (store/dataset/layouts.h).
    if (field.name == "position_ids") positions_ = input(field.name);
  }
}

ValueId DecoderProgram::positions(const std::string& name, std::int64_t rows, std::int64_t width,
                                  WeightInit init) {
  const std::string weight = name + ".weight";
  const ValueId w = parameter(weight, {rows, width}, embedding_init(init, rows, width));
  if (positions_ != kNoValue)
    return node("embedding", name, {w, positions_}, per_sample({length_, width}));
  return node("embedding", name, {w, places(name + ".ids")}, fixed_dims({length_, width}));
}

ValueId DecoderProgram::places(const std::string& name) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(length_));
  std::iota(numbers.begin(), numbers.end(), 0);
  return integers(name, {length_}, numbers);
}

// --- Layers.

ValueId DecoderProgram::words(const std::string& name, ValueId weight) {
  return node("embedding", name, {weight, ids()}, per_sample({length_, width(weight)}));
}

ValueId DecoderProgram::linear(const std::string& name, ValueId x, std::int64_t out,
                               WeightInit init) {
  return ModelWriter::linear(name, x, {.out = out, .bias = false, .init = init});
}

ValueId DecoderProgram::linear_with(const std::string& name, ValueId x, ValueId weight) {
  return node("linear", name, {x, weight}, per_sample({length_, extent(weight, 0)}));
}

ValueId DecoderProgram::conv1d(const std::string& name, ValueId x, std::int64_t out,
                               WeightInit init) {
  const ValueId weight =
      parameter(name + ".weight", {width(x), out}, weight_init(init, width(x), out));
  const ValueId bias = parameter(name + ".bias", {out}, bias_init(init, width(x)));
  // A product reads the weight where it lies, while a linear layer would need it transposed.
  return add(name, node("matmul", name, {x, weight}, per_sample({length_, out})), bias);
}

ValueId DecoderProgram::rms_norm(const std::string& name, ValueId x, double eps) {
  const ValueId weight = parameter(name + ".weight", {width(x)}, {.constant = 1.0F});
  return node("rms_norm", name, {x, weight}, dims(x), {{"axes", std::int64_t{1}}, {"eps", eps}});
}

// --- Attention.

ValueId DecoderProgram::rotate(const std::string& name, ValueId x, ValueId cosine,
                               ValueId signed_sine) {
  const ValueId turned =
      node("roll", name, {x}, dims(x), {{"axis", std::int64_t{3}}, {"shift", width(x) / 2}});
  const ValueId rotated = element_wise("mul", name, turned, {signed_sine});
  return add(name, element_wise("mul", name, x, {cosine}), rotated);
}

ValueId DecoderProgram::at_positions(const std::string& name, ValueId table) {
  if (positions_ == kNoValue) return table;
  const std::int64_t d = width(table);
  const ValueId rows = node("take_rows", name, {table, positions_}, per_sample({length_, d}));
  return reshape(name, rows, per_sample({1, length_, d}));
}

// A document is contiguous, and the position of a token is the number of tokens before it.
ValueId DecoderProgram::document_starts() {
  if (positions_ == kNoValue || document_starts_ != kNoValue) return document_starts_;
  const std::string name = "document_starts";
  return document_starts_ = node("sub", name, {places(name + ".places"), positions_},
                                 per_sample({length_}), {}, ValueType::kI32);
}

ValueId DecoderProgram::attention(const std::string& name, ValueId q, ValueId k, ValueId v) {
  return ModelWriter::attention(name, q, k, v,
                                {.causal = true, .first = document_starts(), .dropout = dropout_});
}

ModelProgram DecoderProgram::finish(ValueId logits, const ModelSpec& spec) && {
  // The classes of a cross entropy are axis 1.
  const ValueId classes = permute("loss", logits, {0, 2, 1}), labels = input("labels");
  const bool plain = spec.label_smoothing == 0.0 && spec.z_loss == 0.0;
  const ValueId loss =
      plain ? cross_entropy(classes, labels)
            : node("regularised_cross_entropy", "loss", {classes, labels}, {},
                   {{"label_smoothing", spec.label_smoothing}, {"z_loss", spec.z_loss}});
  return std::move(*this).ModelWriter::finish(loss, {logits});
}

}  // namespace es::gpu
