#pragma once
// The builders of the model families. They are internal to this folder: build_model() calls them
// after it has checked the samples (sample_check.h). Each file contains one family.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu/graph/builder.h"
#include "proto/base/check.h"
#include "proto/base/job_spec.h"
#include "proto/base/model_program.h"

namespace es::gpu {

inline bool is_tiny(const ModelSpec& spec) {
  return spec.size == "tiny";
}
inline double dropout_of(const ModelSpec& spec, double published) {
  return spec.dropout < 0.0 ? published : spec.dropout;
}
// Returns the variant of the family that has the model's name.
template <class Variant, std::size_t kCount>
const Variant& variant_of(const ModelSpec& spec, const Variant (&all)[kCount]) {
  const auto* const found = std::find_if(std::begin(all), std::end(all),
                                         [&](const Variant& v) { return v.name == spec.name; });
  ES_CHECK(found != std::end(all));
  return *found;
}

struct ModelRequest {
  const ModelSpec& spec;
  GraphBuilder& builder;

  bool tiny() const { return is_tiny(spec); }
  std::int64_t width(std::int64_t published, std::int64_t tiny_width) const {
    if (spec.width != 0) return spec.width;
    return tiny() ? tiny_width : published;
  }
  double dropout(double published) const { return dropout_of(spec, published); }
  template <class Variant, std::size_t kCount>
  const Variant& variant(const Variant (&all)[kCount]) const {
    return variant_of(spec, all);
  }
};

Result<Graph> build_mlp(const ModelRequest& in);
Result<Graph> build_small_cnn(const ModelRequest& in);
Result<Graph> build_resnet(const ModelRequest& in);
Result<Graph> build_shufflenetv2(const ModelRequest& in);
Result<Graph> build_vgg(const ModelRequest& in);
Result<Graph> build_swin(const ModelRequest& in);  // model.dropout is its stochastic depth
Result<Graph> build_yolov3(const ModelRequest& in);
Result<Graph> build_neumf(const ModelRequest& in);
// model.dropout: of activations and attention
Result<Graph> build_encoder_qa(const ModelRequest& in);

// The language models are described as programs (decoder_program.h).
Result<ModelProgram> gpt2_program(const ModelSpec& spec, const SampleLayout& layout);
Result<ModelProgram> llama_program(const ModelSpec& spec, const SampleLayout& layout);

// Checks that sequences of this length are not longer than the model's positions. Error (usage),
// which names the job's field with the length.
Status check_context(const ModelSpec& spec, std::int64_t tokens, std::int64_t positions,
                     const char* field);

// Completes a classifier: computes its loss from the field "label".
Result<Graph> finish_classifier(GraphBuilder& b, TensorId logits);

}  // namespace es::gpu
