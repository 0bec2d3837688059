#include "gpu/models/models.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "gpu/import/import.h"
#include "gpu/import/state_names.h"
#include "gpu/models/families.h"
#include "gpu/models/sample_check.h"
#include "proto/base/number_text.h"

namespace es::gpu {
namespace {

struct Model {
  std::string_view name;
  Result<ModelProgram> (*program)(const ModelRequest&);
  bool has_width;    // accepts model.width
  bool has_dropout;  // accepts model.dropout
  // The least side of an image in pixels, and the number of which each side is a multiple.
  std::int64_t least_side;
  std::int64_t side_multiple;
  // Buffers of state dicts of older versions of a library, which model files do not have.
  std::vector<BufferInfo> (*old_buffers)(const ModelRequest&) = nullptr;
};

constexpr Model kModels[] = {
    {"small_cnn", small_cnn_program, true, false, 4, 1},
    {"resnet18", resnet_program, true, false, 1, 1},
    {"mlp", mlp_program, true, false, 1, 1},
    {"resnet34", resnet_program, false, false, 1, 1},
    {"resnet50", resnet_program, false, false, 1, 1},
    {"resnet101", resnet_program, false, false, 1, 1},
    {"resnet152", resnet_program, false, false, 1, 1},
    {"shufflenetv2", shufflenetv2_program, false, false, 1, 1},
    {"shufflenetv2_x0_5", shufflenetv2_program, false, false, 1, 1},
    {"shufflenetv2_x1_5", shufflenetv2_program, false, false, 1, 1},
    {"shufflenetv2_x2_0", shufflenetv2_program, false, false, 1, 1},
    {"vgg11", vgg_program, false, true, 32, 1},
    {"vgg13", vgg_program, false, true, 32, 1},
    {"vgg16", vgg_program, false, true, 32, 1},
    {"vgg19", vgg_program, false, true, 32, 1},
    {"swin_t", swin_program, false, true, 4, 1},
    {"swin_s", swin_program, false, true, 4, 1},
    {"swin_b", swin_program, false, true, 4, 1},
    {"yolov3", yolov3_program, false, false, 32, 32},
    {"neumf", neumf_program, false, false, 1, 1},
    {"bert", encoder_qa_program, false, true, 1, 1, encoder_qa_old_buffers},
    {"bert_large", encoder_qa_program, false, true, 1, 1, encoder_qa_old_buffers},
    {"electra", encoder_qa_program, false, true, 1, 1, encoder_qa_old_buffers},
    {"electra_base", encoder_qa_program, false, true, 1, 1, encoder_qa_old_buffers},
    {"electra_large", encoder_qa_program, false, true, 1, 1, encoder_qa_old_buffers},
    {"gpt2", gpt2_program, false, true, 1, 1},
    {"gpt2_medium", gpt2_program, false, true, 1, 1},
    {"gpt2_large", gpt2_program, false, true, 1, 1},
    {"gpt2_xl", gpt2_program, false, true, 1, 1},
    {"llama", llama_program, false, false, 1, 1},
    {"llama_1b", llama_program, false, false, 1, 1},
    {"llama_3b", llama_program, false, false, 1, 1},
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

// An evaluation of a detector gives its heads as the engine stores images, [n,h,w,c]. Those of its
// model file are [n,c,h,w].
ModelProgram with_stored_heads(ModelProgram program) {
  const Extents order{0, 2, 3, 1};
  for (ModelOutput& head : program.outputs) {
    const ValueId image = std::exchange(head.value, static_cast<ValueId>(program.values.size()));
    const std::vector<ModelDim> dims = program.values[static_cast<std::size_t>(image)].dims;
    program.values.push_back({.dims = {dims[0], dims[2], dims[3], dims[1]}});
    program.nodes.push_back({.kind = "permute",
                             .name = head.name,
                             .inputs = {image},
                             .outputs = {head.value},
                             .attributes = {{"order", order}},
                             .source = {}});
  }
  return program;
}

}  // namespace

Result<ModelProgram> write_model(const ModelSpec& spec, std::int64_t batch,
                                 const SampleLayout& layout) {
  const Result<const Model*> model = checked_model(spec, layout);
  if (!model) return model.error();
  Result<ModelProgram> program = (*model)->program({spec, layout});
  if (!program) return program.error();
  const Result<Graph> graph = import_model(*program, batch);
  if (!graph) return graph.error();
  return program;
}

Result<Graph> build_model(const ModelSpec& spec, std::int64_t batch, const SampleLayout& layout) {
  const Result<const Model*> model = checked_model(spec, layout);
  if (!model) return model.error();
  const ModelRequest request{spec, layout};
  Result<ModelProgram> program = (*model)->program(request);
  if (!program) return program.error();
  if (task_of(spec) == Task::kDetection) program = with_stored_heads(*std::move(program));
  Result<Graph> graph = import_model(*program, batch);
  if (!graph) return graph.error();
  add_state_names(*program, graph->table);
  if ((*model)->old_buffers != nullptr)
    for (BufferInfo& buffer : (*model)->old_buffers(request))
      graph->table.add_buffer(std::move(buffer));
  return graph;
}

Status ModelRequest::check_context(std::int64_t positions, const char* key) const {
  const std::int64_t tokens = field("ids").height;
  if (tokens <= positions) return {};
  return usage_error("model " + spec.name + ": field \"ids\" has " + std::to_string(tokens) +
                     " tokens: allowed is at most " + std::to_string(positions) + " (" + key + ")");
}

ModelProgram finish_classifier(ModelWriter w, ValueId logits) {
  const ValueId loss = w.cross_entropy(logits, w.input("label"));
  return std::move(w).finish(loss, {logits});
}

}  // namespace es::gpu
