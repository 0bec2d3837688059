#include "actors/worker/job_model/job_model.h"

#include <algorithm>

#include "gpu/import/adapters.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "gpu/import/state_names.h"
#include "gpu/models/models.h"
#include "proto/base/text.h"
#include "store/dataset/job_sampler.h"
#include "store/model_file/model_digest.h"
#include "store/model_file/model_file.h"

namespace es::actors {
namespace {

Error in_file(const std::string& file, const Error& error) {
  return {error.kind, file + ": " + error.message};
}

const ModelValue& value_of(const ModelProgram& program, ValueId id) {
  return program.values[static_cast<std::size_t>(id)];
}

// Returns the input with this name, or nullptr.
const ModelInput* input_named(const ModelProgram& program, const char* name) {
  const auto found = std::ranges::find(program.inputs, name, &ModelInput::name);
  return found == program.inputs.end() ? nullptr : &*found;
}

// Whether the first output is [B, classes] with a place for every value of the label.
bool has_logits_for(const ModelProgram& program, const ModelInput& label) {
  if (program.outputs.empty()) return false;
  const ModelValue& logits = value_of(program, program.outputs.front().value);
  return logits.type == ValueType::kF32 && logits.dims.size() == 2 && logits.dims[0].per_batch &&
         !logits.dims[1].per_batch && logits.dims[1].size > label.high;
}

// Whether the model has a cross entropy of the input "label", one class for each sample, and logits
// for it. Then the accuracy is counted.
bool predicts_label(const ModelProgram& program) {
  const ModelInput* const label = input_named(program, "label");
  if (label == nullptr || value_of(program, label->value).dims.size() != 1) return false;
  return has_logits_for(program, *label) &&
         std::ranges::any_of(program.nodes, [&](const ModelNode& node) {
           // The second input of this operator is the class of each sample.
           return node.kind == "cross_entropy" && node.inputs[1] == label->value;
         });
}

// The number of classes that the loss of a detector distinguishes; 0: there is no such loss.
std::uint32_t box_classes(const ModelProgram& program) {
  for (const ModelNode& node : program.nodes)
    for (const ModelAttribute& attribute : node.attributes)
      if (node.kind == "yolo" && attribute.name == "classes")
        return static_cast<std::uint32_t>(std::get<std::int64_t>(attribute.value));
  return 0;
}

// [value]: whether an output depends on it.
std::vector<bool> values_of_outputs(const ModelProgram& program) {
  std::vector<bool> needed(program.values.size(), false);
  for (const ModelOutput& output : program.outputs)
    needed[static_cast<std::size_t>(output.value)] = true;
  for (std::size_t i = program.nodes.size(); i-- > 0;) {
    const ModelNode& node = program.nodes[i];
    const auto is_needed = [&](ValueId id) { return needed[static_cast<std::size_t>(id)]; };
    if (std::ranges::none_of(node.outputs, is_needed)) continue;
    for (const ValueId id : node.inputs)
      if (id != kNoValue) needed[static_cast<std::size_t>(id)] = true;
  }
  return needed;
}

// The target is the only input on which no output depends. Of several ones it is the one with the
// usual name.
std::optional<std::size_t> target_input(const ModelProgram& program) {
  const std::vector<bool> needed = values_of_outputs(program);
  std::vector<std::size_t> found, named;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (needed[static_cast<std::size_t>(program.inputs[i].value)]) continue;
    found.push_back(i);
    const std::string& name = program.inputs[i].name;
    if (name == "label" || name == "labels" || name == "target") named.push_back(i);
  }
  if (found.size() == 1) return found.front();
  return named.size() == 1 ? std::optional(named.front()) : std::nullopt;
}

std::optional<store::CapturedTarget> target_of(const ModelProgram& program) {
  const auto input = target_input(program);
  if (!input || program.outputs.empty()) return std::nullopt;
  const ModelValue& output = value_of(program, program.outputs.front().value);
  if (output.type != ValueType::kF32) return std::nullopt;
  store::CapturedTarget target{.input = *input, .output = {}};
  // An output of a model file has a first extent per batch (gpu/import/check.h).
  if (output.dims.front().size > 1) target.output.push_back(output.dims.front().size);
  for (std::size_t axis = 1; axis < output.dims.size(); ++axis)
    target.output.push_back(output.dims[axis].size);
  const bool of_pairs = std::any_of(output.dims.begin() + 1, output.dims.end(),
                                    [](const ModelDim& dim) { return dim.per_batch; });
  if (of_pairs) return std::nullopt;
  for (const ModelNode& node : program.nodes) {
    target.probabilities = target.probabilities || node.kind == "bce";
    target.decides = target.decides || node.kind == "bce" || node.kind == "bce_with_logits";
  }
  return target;
}

}  // namespace

Status check_eval_count(const gpu::Graph& graph, const JobSpec& spec, std::uint64_t eval_count,
                        const store::CapturedInputs* inputs) {
  const auto batches = store::job_evaluation(spec, eval_count, inputs);
  if (!batches) return batches.error();
  const auto incomplete = std::ranges::find_if(
      *batches, [&](const store::EvaluatedSamples& b) { return b.count != spec.batch_size; });
  if (!graph.loss_of_batch || incomplete == batches->end()) return {};
  return usage_error(std::to_string(eval_count) +
                     " evaluation samples: allowed is a multiple of batch_size = " +
                     std::to_string(spec.batch_size) +
                     ", because the loss of the model is one number for a mini-batch");
}

store::CapturedInputs captured_inputs(const ModelProgram& program) {
  const SampleLayout layout = gpu::program_layout(program);
  store::CapturedInputs captured{.inputs = {},
                                 .predicts_label = predicts_label(program),
                                 .box_classes = box_classes(program),
                                 .target = target_of(program)};
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const ModelValue& value = value_of(program, program.inputs[i].value);
    store::CapturedInput input{.field = layout.fields[i], .type = value.type, .shape = {}};
    // Axis 0 is the mini-batch.
    for (std::size_t axis = 1; axis < value.dims.size(); ++axis)
      input.shape.push_back(value.dims[axis].size);
    captured.inputs.push_back(std::move(input));
  }
  for (const ModelProgram& further : program.programs)
    captured.others.push_back(captured_inputs(further));
  return captured;
}

Result<ModelProgram> read_model(const std::filesystem::path& file) {
  auto program = store::read_model_file(file);
  if (!program) return program.error();
  const Status checked = gpu::check_program(*program);
  if (!checked.ok()) return in_file(file.string(), checked.error());
  return program;
}

Result<JobModel> JobModel::open(const ModelSpec& spec) {
  JobModel model;
  if (spec.file.empty()) return model;
  auto program = read_model(spec.file);
  if (!program) return program.error();
  model.where_ = spec.file;
  model.file_digest_ = store::model_digest(*program).hex();
  // At its admission the job has no digest yet. Workers compare with the one that admission has
  // found.
  if (!spec.file_digest.empty() && model.file_digest_ != spec.file_digest)
    return usage_error(spec.file + ": digest = " + model.file_digest_ + ": allowed is " +
                       spec.file_digest + ", which it had when the job was admitted");
  auto turns = LossTurns::create(program->every);
  if (!turns) return in_file(spec.file, turns.error());
  model.turns_ = *std::move(turns);
  model.inputs_ = std::make_shared<const store::CapturedInputs>(captured_inputs(*program));
  model.program_ = std::make_shared<const ModelProgram>(*std::move(program));
  return model;
}

Result<store::DataFacts> JobModel::data_facts(const JobSpec& spec) const {
  return store::data_facts(spec, inputs_.get());
}

Result<std::shared_ptr<const store::SampleSource>> JobModel::open_samples(
    const JobSpec& spec) const {
  return store::open_samples(spec, inputs_.get());
}

Status JobModel::check_initial_values(const ModelSpec& model) const {
  if (!program_ || !model.weights.empty()) return {};
  for (const ModelParameter& parameter : program_->parameters)
    if (!parameter.init)
      return usage_error(
          "job: model.weights = \"\": allowed is the safetensors file with the initial weights, "
          "because model.file = \"" +
          where_ + "\" gives no initial value of \"" + escaped(parameter.name) + "\"");
  if (!program_->states.empty())
    return usage_error(
        "job: model.weights = \"\": allowed is the safetensors file with the first contents of the "
        "states of model.file = \"" +
        where_ + "\", such as \"" + escaped(program_->states.front().name) + "\"");
  return {};
}

Result<gpu::Graph> JobModel::graph(const JobSpec& spec, const SampleLayout& layout) const {
  if (!program_ && spec.lora.rank == 0)
    return gpu::build_model(spec.model, spec.batch_size, layout);
  const Result<ModelProgram> program = whole_program(spec, layout);
  if (!program) return program.error();
  auto graph = graph_of(*program, spec.batch_size);
  if (!graph) return in_file(model_text(spec.model), graph.error());
  return graph;
}

Result<ModelProgram> JobModel::whole_program(const JobSpec& spec,
                                             const SampleLayout& layout) const {
  Result<ModelProgram> program = program_ ? Result<ModelProgram>(*program_)
                                          : gpu::write_model(spec.model, spec.batch_size, layout);
  if (!program || spec.lora.rank == 0) return program;
  program = gpu::with_adapters(*std::move(program), spec.lora);
  if (!program) return in_file(model_text(spec.model), program.error());
  return program;
}

Result<gpu::Graph> JobModel::graph_of(const ModelProgram& program, std::int64_t batch) {
  auto graph = gpu::import_model(program, batch);
  if (graph) gpu::add_state_names(program, graph->table);
  return graph;
}

}  // namespace es::actors
