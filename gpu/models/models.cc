#include "gpu/models/models.h"

#include <algorithm>
#include <string_view>

#include "gpu/import/import.h"
#include "gpu/import/state_names.h"
#include "gpu/models/families.h"
#include "gpu/models/program_builder.h"
#include "gpu/models/sample_check.h"
#include "proto/base/number_text.h"

namespace es::gpu {
namespace {

struct Model {
  std::string_view name;
  Result<Graph> (*build)(const ModelRequest&);
  bool has_width;    // accepts model.width
  bool has_dropout;  // accepts model.dropout
  // The least side of an image in pixels, and the number of which each side is a multiple.
  std::int64_t least_side;
  std::int64_t side_multiple;
  // In place of `build`: a model that is described as a program.
  Result<ModelProgram> (*program)(const ModelSpec&, const SampleLayout&) = nullptr;
};

constexpr Model kModels[] = {
    {"small_cnn", build_small_cnn, true, false, 4, 1},
    {"resnet18", build_resnet, true, false, 1, 1},
    {"mlp", build_mlp, true, false, 1, 1},
    {"resnet34", build_resnet, false, false, 1, 1},
    {"resnet50", build_resnet, false, false, 1, 1},
    {"resnet101", build_resnet, false, false, 1, 1},
    {"resnet152", build_resnet, false, false, 1, 1},
    {"shufflenetv2", build_shufflenetv2, false, false, 1, 1},
    {"shufflenetv2_x0_5", build_shufflenetv2, false, false, 1, 1},
    {"shufflenetv2_x1_5", build_shufflenetv2, false, false, 1, 1},
    {"shufflenetv2_x2_0", build_shufflenetv2, false, false, 1, 1},
    {"vgg11", build_vgg, false, true, 32, 1},
    {"vgg13", build_vgg, false, true, 32, 1},
    {"vgg16", build_vgg, false, true, 32, 1},
    {"vgg19", build_vgg, false, true, 32, 1},
    {"swin_t", build_swin, false, true, 4, 1},
    {"swin_s", build_swin, false, true, 4, 1},
    {"swin_b", build_swin, false, true, 4, 1},
    {"yolov3", build_yolov3, false, false, 32, 32},
    {"neumf", build_neumf, false, false, 1, 1},
    {"bert", build_encoder_qa, false, true, 1, 1},
    {"bert_large", build_encoder_qa, false, true, 1, 1},
    {"electra", build_encoder_qa, false, true, 1, 1},
    {"electra_base", build_encoder_qa, false, true, 1, 1},
    {"electra_large", build_encoder_qa, false, true, 1, 1},
    {"gpt2", nullptr, false, true, 1, 1, gpt2_program},
    {"gpt2_medium", nullptr, false, true, 1, 1, gpt2_program},
    {"gpt2_large", nullptr, false, true, 1, 1, gpt2_program},
    {"gpt2_xl", nullptr, false, true, 1, 1, gpt2_program},
    {"llama", nullptr, false, false, 1, 1, llama_program},
    {"llama_1b", nullptr, false, false, 1, 1, llama_program},
    {"llama_3b", nullptr, false, false, 1, 1, llama_program},
};

Error unknown_model(const ModelSpec& spec) {
  std::string allowed;
  for (const Model& m : kModels) allowed += (allowed.empty() ? "" : ", ") + std::string(m.name);
  return usage_error("model.name = \"" + spec.name + "\": allowed is " + allowed);
}

Status check_options(const ModelSpec& spec, const Model& model) {
  if (spec.size != "published" && spec.size != "tiny")
    return usage_error("model.size = \"" + spec.size + "\": allowed is published, tiny");
  if (spec.width != 0 && !model.has_width)
    return usage_error("model.width = " + std::to_string(spec.width) + ": " + spec.name +
                       " has no width of its own; allowed is 0");
  if (spec.dropout > 0.0 && !model.has_dropout)
    return usage_error("model.dropout = " + number_text(spec.dropout) + ": " + spec.name +
                       " has no dropout; allowed is -1 or 0");
  return {};
}

// Returns the entry of the model, whose options and samples have been checked.
Result<const Model*> checked_model(const ModelSpec& spec, const SampleLayout& layout) {
  const auto* const model = std::find_if(std::begin(kModels), std::end(kModels),
                                         [&](const Model& m) { return m.name == spec.name; });
  if (model == std::end(kModels)) return unknown_model(spec);
  ES_RETURN_IF_ERROR(check_options(spec, *model));
  ES_RETURN_IF_ERROR(check_samples(spec, layout));
  ES_RETURN_IF_ERROR(check_image_sides(spec, layout, model->least_side, model->side_multiple));
  return model;
}

Result<Graph> build_program(const Result<ModelProgram>& program, std::int64_t batch) {
  if (!program) return program.error();
  Result<Graph> graph = import_model(*program, batch);
  if (graph) add_state_names(*program, graph->table);
  return graph;
}

}  // namespace

Result<Graph> build_model(const ModelSpec& spec, std::int64_t batch, const SampleLayout& layout) {
  const Result<const Model*> model = checked_model(spec, layout);
  if (!model) return model.error();
  if ((*model)->program != nullptr) return build_program((*model)->program(spec, layout), batch);
  GraphBuilder builder(spec.name, batch, layout);
  return (*model)->build({spec, builder});
}

Result<ModelProgram> write_model(const ModelSpec& spec, std::int64_t batch,
                                 const SampleLayout& layout) {
  const Result<const Model*> model = checked_model(spec, layout);
  if (!model) return model.error();
  if ((*model)->program != nullptr) return (*model)->program(spec, layout);
  ProgramBuilder builder(spec.name, batch, layout);
  const Result<Graph> graph = (*model)->build({spec, builder});
  if (!graph) return graph.error();
  return builder.program();
}

Status check_context(const ModelSpec& spec, std::int64_t tokens, std::int64_t positions,
                     const char* field) {
  if (tokens <= positions) return {};
  return usage_error("model " + spec.name + ": field \"ids\" has " + std::to_string(tokens) +
                     " tokens: allowed is at most " + std::to_string(positions) + " (" + field +
                     ")");
}

Result<Graph> finish_classifier(GraphBuilder& b, TensorId logits) {
  b.cross_entropy("loss", logits, b.input("label"));
  return b.finish({logits});
}

}  // namespace es::gpu
