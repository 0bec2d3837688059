#pragma once
// The model families, as functions that write model programs (model_writer.h). They are internal
// to this folder: build_model() and write_model() call them after they have checked the samples
// (sample_check.h). Each file contains one family.
// contains one family.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/models/model_writer.h"
#include "gpu/params/param_table.h"
#include "proto/base/check.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

struct ModelRequest {
  const ModelSpec& spec;
  const SampleLayout& layout;

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

  // A field of the samples. REQUIRES: check_samples() has found it.
  const SampleField& field(std::string_view name) const { return layout.fields[layout.find(name)]; }
  // The number of values of a field of integers, which is the number of rows of its embedding.
  std::int64_t values(std::string_view name) const { return std::int64_t{field(name).high} + 1; }
  // Checks that texts are not longer than the model's positions. Error (usage), which names the
  // job's key with the length.
  Status check_context(std::int64_t positions, const char* key) const;
};

Result<ModelProgram> mlp_program(const ModelRequest& in);
Result<ModelProgram> small_cnn_program(const ModelRequest& in);
Result<ModelProgram> resnet_program(const ModelRequest& in);
Result<ModelProgram> shufflenetv2_program(const ModelRequest& in);
Result<ModelProgram> vgg_program(const ModelRequest& in);
Result<ModelProgram> swin_program(const ModelRequest& in);  // model.dropout is its stochastic depth
Result<ModelProgram> yolov3_program(const ModelRequest& in);
Result<ModelProgram> neumf_program(const ModelRequest& in);
// model.dropout: of activations and attention
Result<ModelProgram> encoder_qa_program(const ModelRequest& in);
Result<ModelProgram> gpt2_program(const ModelRequest& in);
Result<ModelProgram> llama_program(const ModelRequest& in);

// What state dicts of older versions of a library had, and the program has not.
std::vector<BufferInfo> encoder_qa_old_buffers(const ModelRequest& in);

// Completes a classifier: computes its loss from the field "label".
ModelProgram finish_classifier(ModelWriter w, ValueId logits);

}  // namespace es::gpu
