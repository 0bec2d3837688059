#pragma once
// DecoderProgram writes the nodes of a decoder language model: what GPT-2 and Llama have in common.
//
// With the field position_ids a window has several documents, which are contiguous: the position of
// a token is the one in the field, and a token attends to those of its own document.
//
// The fields are those of language modelling (proto/base/sample_layout.h). A value without a batch
// has the extents that are given; the others have the mini-batch in front of them.
#include <cstdint>
#include <string>

#include "gpu/models/model_writer.h"
#include "proto/base/job_spec.h"

namespace es::gpu {

class DecoderProgram : public ModelWriter {
 public:
  // `dropout` is the probability of every dropout of the model. REQUIRES: check_samples() accepts
  // the layout for language modelling.
  DecoderProgram(std::string name, const SampleLayout& layout, double dropout);

  ValueId ids() const { return input("ids"); }
  std::int64_t length() const { return length_; }
  std::int64_t vocabulary() const { return vocabulary_; }

  // The rows of an embedding for the positions of the tokens: 0 to length() - 1 as [length,width],
  // or those of the field position_ids as [batch,length,width].
  ValueId positions(const std::string& name, std::int64_t rows, std::int64_t width,
                    WeightInit init);

  // --- Layers on values [batch,length,width].
  // The rows of a weight for the tokens.
  ValueId words(const std::string& name, ValueId weight);
  // nn.Linear without a bias, with the weight [out,in].
  ValueId linear(const std::string& name, ValueId x, std::int64_t out, WeightInit init);
  // The same with a weight that exists.
  ValueId linear_with(const std::string& name, ValueId x, ValueId weight);
  // transformers' Conv1D: a linear layer whose weight is stored as [in,out], with a bias.
  ValueId conv1d(const std::string& name, ValueId x, std::int64_t out, WeightInit init);
  ValueId rms_norm(const std::string& name, ValueId x, double eps);
  // Does nothing if the probability is 0.
  ValueId dropout(const std::string& name, ValueId x) {
    return ModelWriter::dropout(name, x, dropout_);
  }

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
  // The numbers 0 to length() - 1.
  ValueId places(const std::string& name);
  // The place of the first token of each token's document [batch,length]. kNoValue: there are no
  // documents.
  ValueId document_starts();

  std::int64_t length_, vocabulary_;
  double dropout_;
  ValueId positions_ = kNoValue;        // the field position_ids; kNoValue: there is none
  ValueId document_starts_ = kNoValue;  // after its first use
};

}  // namespace es::gpu
