#pragma once
// The builders of the model families. They are internal to this folder: build_model() calls them
// after it has checked the samples (sample_check.h). Each file contains one family.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu/graph/builder.h"
#include "proto/base/check.h"
#include "proto/base/job_spec.h"

namespace es::gpu {

struct ModelRequest {
  const ModelSpec& spec;
  GraphBuilder& builder;

  bool tiny() const { return spec.size == "tiny"; }
  std::int64_t width(std::int64_t published, std::int64_t tiny_width) const {
    if (spec.width != 0) return spec.width;
    return tiny() ? tiny_width : published;
  }
  double dropout(double published) const { return spec.dropout < 0.0 ? published : spec.dropout; }
  // Returns the variant of the family that has the model's name.
  template <class Variant, std::size_t kCount>
  const Variant& variant(const Variant (&all)[kCount]) const {
    const auto* const found = std::find_if(std::begin(all), std::end(all),
                                           [&](const Variant& v) { return v.name == spec.name; });
    ES_CHECK(found != std::end(all));
    return *found;
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

// Completes a classifier: computes its loss from the field "label".
Result<Graph> finish_classifier(GraphBuilder& b, TensorId logits);

}  // namespace es::gpu
