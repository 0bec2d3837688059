#pragma once
// DecoderProgram writes the nodes of a decoder language model: what GPT-2 and Llama have in common.
// These models are described as model programs, and the import (gpu/import/import.h) makes their
// graphs, so a built-in model and its model file are the same.
//
// With the field position_ids a window has several documents, which are contiguous: the position of
// a token is the one in the field, and a token attends to those of its own document.
//
// The fields are those of language modelling (proto/base/sample_layout.h). A value without a batch
// has the extents that are given; the others have the mini-batch in front of them.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/graph/weight_init.h"
#include "proto/base/job_spec.h"
#include "proto/base/model_program.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

class DecoderProgram {
 public:
  using Extents = std::vector<std::int64_t>;

  // `dropout` is the probability of every dropout of the model. REQUIRES: check_samples() accepts
  // the layout for language modelling.
  DecoderProgram(std::string name, const SampleLayout& layout, double dropout);

  ValueId ids() const { return program_.inputs.front().value; }
  std::int64_t length() const { return length_; }
  std::int64_t vocabulary() const { return vocabulary_; }

  // --- Values without a batch.
  ValueId parameter(const std::string& name, const Extents& extents, ParamInit init);
  // Another name of the parameter in the state dict.
  void tie(ValueId parameter, const std::string& alias);
  ValueId constant(const std::string& name, const Extents& extents,
                   const std::vector<float>& values);
  // The rows of an embedding for the positions of the tokens: 0 to length() - 1 as [length,width],
  // or those of the field position_ids as [batch,length,width].
  ValueId positions(const std::string& name, std::int64_t rows, std::int64_t width,
                    WeightInit init);

  // --- Layers on values [batch,length,width].
  ValueId embedding(const std::string& name, ValueId weight, std::int64_t width);
  // nn.Linear, with the weight [out,in].
  ValueId linear(const std::string& name, ValueId x, std::int64_t out, WeightInit init);
  // A linear layer without a bias, with a weight that exists.
  ValueId linear_with(const std::string& name, ValueId x, std::int64_t out, ValueId weight);
  // transformers' Conv1D: a linear layer whose weight is stored as [in,out], with a bias.
  ValueId conv1d(const std::string& name, ValueId x, std::int64_t out, WeightInit init);
  ValueId layer_norm(const std::string& name, ValueId x, double eps);
  ValueId rms_norm(const std::string& name, ValueId x, double eps);
  // Does nothing if the probability is 0.
  ValueId dropout(const std::string& name, ValueId x);
  // An operator on every element; operands are broadcast to the extents of x.
  ValueId element_wise(const char* kind, const std::string& name, ValueId x,
                       const std::vector<ValueId>& others = {},
                       std::vector<ModelAttribute> attributes = {});
  // The columns [begin, begin + width).
  ValueId columns(const std::string& name, ValueId x, std::int64_t begin, std::int64_t width);

  // [batch,length,heads*d] becomes [batch,heads,length,d].
  ValueId heads(const std::string& name, ValueId x, std::int64_t heads);
  // Rotary position embedding of values [batch,heads,length,d]: x * cosine + rotated x * sine,
  // where x is rotated by half of its width. Both tables are those of at_positions().
  ValueId rotate(const std::string& name, ValueId x, ValueId cosine, ValueId signed_sine);
  // The rows of a table [length,d] at the positions of the tokens, for values
  // [batch,heads,length,d].
  ValueId at_positions(const std::string& name, ValueId table);
  // Causal attention, within documents if the layout has position_ids. q is [batch,heads,length,d];
  // k and v may have fewer heads. Returns [batch,length,heads*d].
  ValueId attention(const std::string& name, ValueId q, ValueId k, ValueId v);

  // Completes the model: the mean cross-entropy of the next tokens, with the terms of the spec, is
  // the loss, and the logits [batch,length,vocabulary] are the output.
  ModelProgram finish(ValueId logits, const ModelSpec& spec) &&;

 private:
  const std::vector<ModelDim>& dims(ValueId id) const {
    return program_.values[static_cast<std::size_t>(id)].dims;
  }
  std::int64_t width(ValueId id) const { return dims(id).back().size; }
  // 0 to length() - 1.
  ValueId places(const std::string& name);
  // The value of the field with this name; kNoValue: there is none.
  ValueId input(const char* name) const;
  ValueId add_value(ValueType type, std::vector<ModelDim> dims);
  ValueId node(const char* kind, const std::string& name, const std::vector<ValueId>& inputs,
               std::vector<ModelDim> dims, std::vector<ModelAttribute> attributes = {},
               ValueType type = ValueType::kF32);
  // The place of the first token of each token's document [batch,length]. kNoValue: there are no
  // documents.
  ValueId document_starts();
  ValueId permuted(const std::string& name, ValueId x, const Extents& order);
  // The same with another last extent.
  std::vector<ModelDim> with_width(ValueId x, std::int64_t width) const;
  std::int64_t next_site() { return sites_++; }

  ModelProgram program_;
  std::int64_t length_, vocabulary_;
  double dropout_;
  std::int64_t sites_ = 0;              // nodes that draw random numbers
  ValueId document_starts_ = kNoValue;  // after its first use
};

}  // namespace es::gpu
