#pragma once
// The builders of the model families: internal to this folder, called by build_model after the
// samples have been checked (sample_check.h). Each file holds one family.
#include <cstdint>

#include "gpu/graph/builder.h"
#include "proto/base/job_spec.h"

namespace es::gpu {

struct ModelInput {
  const ModelSpec& spec;
  std::int64_t batch;
  const SampleLayout& layout;

  bool tiny() const { return spec.size == "tiny"; }
  std::int64_t width(std::int64_t published, std::int64_t tiny_width) const {
    if (spec.width != 0) return spec.width;
    return tiny() ? tiny_width : published;
  }
  double dropout(double published) const { return spec.dropout < 0.0 ? published : spec.dropout; }
  GraphBuilder builder() const { return {spec.name, batch, layout}; }
};

Result<Graph> build_mlp(const ModelInput& in);
Result<Graph> build_small_cnn(const ModelInput& in);
Result<Graph> build_resnet18(const ModelInput& in);
Result<Graph> build_resnet50(const ModelInput& in);
Result<Graph> build_shufflenetv2(const ModelInput& in);
Result<Graph> build_vgg19(const ModelInput& in);
Result<Graph> build_swin_t(const ModelInput& in);  // model.dropout: its stochastic depth
Result<Graph> build_yolov3(const ModelInput& in);
Result<Graph> build_neumf(const ModelInput& in);
Result<Graph> build_bert(const ModelInput& in);     // model.dropout: of activations and attention
Result<Graph> build_electra(const ModelInput& in);  // model.dropout: likewise

// Ends a classifier: its loss against the field "label".
Result<Graph> finish_classifier(GraphBuilder& b, TensorId logits);

}  // namespace es::gpu
