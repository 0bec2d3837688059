#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "actors/esctl/client/checkpoint_model.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"
#include "actors/worker/state/checkpoint_sections.h"
#include "actors/worker/state/initial_weights.h"
#include "gpu/engine/captured_updates.h"
#include "gpu/import/adapters.h"
#include "gpu/optim/replica.h"
#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/new_file.h"
#include "store/dataset/images/pixel_writer.h"
#include "store/dataset/sources.h"

namespace es::actors::esctl {
namespace {

struct ExportOptions {
  std::string checkpoint;
  std::string file;
  std::string optimizer;  // file for the optimizer arrays; empty if they are not exported
  std::string data;       // replaces the job's data.path
  bool ema = false;       // what evaluations use in place of the parameters
  bool json = false;
};

bool has_adapters(const CheckpointModel& source) {
  return source.spec.lora.rank != 0;
}

template <class Array>
Status read_array(const CheckpointModel& source, const std::string& section, std::int64_t floats,
                  Array& out) {
  out = Array(floats);
  return source.reader.read_into(section,
                                 std::as_writable_bytes(std::span(out.data(), out.floats())));
}

std::string list_text(std::span<const float> values) {
  std::string text;
  for (const float value : values) {
    std::array<char, 32> digits{};
    const char* const end = std::to_chars(digits.begin(), digits.end(), value).ptr;
    text += (text.empty() ? "[" : ", ") + std::string(digits.cbegin(), end);
  }
  return text + "]";
}

// How the pixels of the job's images become numbers, and the names of its classes. Both are JSON
// lists.
Status add_image_metadata(const JobSpec& spec, store::Metadata& metadata) {
  const store::Normalisation& normal = store::normalisation(spec.data);
  metadata["mean"] = list_text(normal.mean);
  metadata["std"] = list_text(normal.deviation);
  if (spec.data.kind != "image_folder") return {};
  const auto classes = store::image_folder_classes(spec.data);
  if (!classes) return classes.error();
  metadata["classes"] = nlohmann::json(*classes).dump();
  return {};
}

bool trains_on_images(const CheckpointModel& source) {
  return store::pixel_field(source.spec, source.graph.layout).has_value();
}

Result<store::Metadata> metadata_of(const CheckpointModel& source) {
  const store::CheckpointHead& head = source.reader.head();
  store::Metadata metadata{{"format", "pt"},
                           {"job", head.job_name},
                           {"model", model_text(source.spec.model)},
                           {"version", std::to_string(head.version)},
                           {"params_digest", head.params_digest.hex()},
                           {"state_digest", head.state_digest.hex()}};
  if (source.model.program() != nullptr) metadata["model_digest"] = source.model.file_digest();
  if (trains_on_images(source)) ES_RETURN_IF_ERROR(add_image_metadata(source.spec, metadata));
  return metadata;
}

// The digest of the parameters that a checkpoint with adapters leaves out.
Result<Digest> base_of(const CheckpointModel& source) {
  const auto bytes = source.reader.read(kBaseSection);
  if (!bytes) return bytes.error();
  const auto digest = Digest::parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!digest) return usage_error(source.directory + ": section \"base\" is no digest");
  return *digest;
}

Result<std::vector<gpu::HeldArray>> read_moments(const CheckpointModel& source) {
  std::vector<gpu::HeldArray> moments;
  while (source.reader.find(moment_section(moments.size())) != nullptr) {
    const std::string section = moment_section(moments.size());
    ES_RETURN_IF_ERROR(
        read_array(source, section, source.graph.table.trained_floats(), moments.emplace_back()));
  }
  return moments;
}

Result<std::vector<gpu::ParamState>> captured_states(const CheckpointModel& source) {
  const gpu::ParamTable& table = source.graph.table;
  if (source.graph.updates == nullptr) return std::vector<gpu::ParamState>();
  const auto captured =
      gpu::captured_updates(table, source.graph.updates.get(), source.spec.optimizer, {}, 0);
  if (!captured) return captured.error();
  return gpu::param_states(table, *source.graph.updates, *captured);
}

// Replaces the parameters by what evaluations use.
Status use_average(const CheckpointModel& source, gpu::AlignedBuffer& params) {
  const auto moments = read_moments(source);
  if (!moments) return moments.error();
  const auto states = captured_states(source);
  if (!states) return states.error();
  const Version first =
      source.graph.updates == nullptr ? 1 : source.graph.updates->turns.steps_of(1);
  if (source.reader.head().version >= first) {
    if (source.spec.optimizer.ema > 0.0) {
      const gpu::HeldArray& average = moments->back();
      std::copy_n(average.data(), average.floats(), params.data());
      return {};
    }
    if (gpu::use_evaluated(source.graph.table, *states, *moments, params.data())) return {};
  }
  return usage_error("--ema: " + source.directory + " has no average; allowed is a checkpoint " +
                     "after step 1 of a job with optimizer.ema above 0, or with a captured " +
                     "optimizer that has weights for evaluations");
}

// The parameters that the checkpoint has, as they were trained or averaged.
Result<gpu::Replica> read_params(const CheckpointModel& source, const ExportOptions& options) {
  const gpu::ParamTable& table = source.graph.table;
  const bool adapters = has_adapters(source);
  gpu::Replica replica;
  ES_RETURN_IF_ERROR(read_array(source, kParamsSection,
                                adapters ? table.trained_floats() : table.total_floats(),
                                replica.params));
  const auto frozen =
      adapters ? base_of(source) : Result<Digest>(gpu::frozen_digest(table, replica.params.data()));
  if (!frozen) return frozen.error();
  const Digest found = gpu::params_digest(table, replica, *frozen);
  const store::CheckpointHead& head = source.reader.head();
  if (found != head.params_digest)
    return usage_error(options.file + ": parameters with digest " + found.hex() + ": allowed is " +
                       head.params_digest.hex() + "; these are not the data of the job");
  if (options.ema) ES_RETURN_IF_ERROR(use_average(source, replica.params));
  return replica;
}

Status export_weights(const CheckpointModel& source, const ExportOptions& options) {
  const auto replica = read_params(source, options);
  if (!replica) return replica.error();
  const store::CheckpointHead& head = source.reader.head();
  const auto bytes = source.reader.read(context_section(0));
  if (!bytes) return bytes.error();
  const auto context = gpu::decode_context(*bytes, source.graph.table.stat_floats());
  if (!context) return context.error();
  const auto metadata = metadata_of(source);
  if (!metadata) return metadata.error();
  const StateDict state(source.graph.table, replica->params.data(), context->stats.data(),
                        head.version);
  return store::write_safetensors(store::posix_file_system(), options.file, state.tensors(),
                                  *metadata);
}

// What peft.PeftModel.from_pretrained() reads beside the matrices.
nlohmann::ordered_json adapter_config(const CheckpointModel& source) {
  std::vector<std::string> modules;
  for (const gpu::ParamInfo& param : source.graph.table.trained())
    if (const std::string module = gpu::module_of_a(param.name); !module.empty())
      modules.push_back(module);
  const JobSpec& spec = source.spec;
  return {{"peft_type", "LORA"},
          {"base_model_name_or_path",
           spec.model.weights.empty() ? model_text(spec.model) : spec.model.weights},
          {"r", spec.lora.rank},
          {"lora_alpha", spec.lora.alpha},
          {"lora_dropout", spec.lora.dropout},
          {"target_modules", modules},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"task_type", nullptr}};
}

// Writes the matrices and their configuration into a new directory, under the names of peft.
Status export_adapters(const CheckpointModel& source, const ExportOptions& options) {
  namespace fs = std::filesystem;
  const fs::path directory = options.file;
  if (directory.extension() == ".safetensors")
    return usage_error(options.file + ": allowed is a new directory, because the job has adapters");
  const auto replica = read_params(source, options);
  if (!replica) return replica.error();
  const auto metadata = metadata_of(source);
  if (!metadata) return metadata.error();
  std::vector<gpu::NamedTensor> tensors;
  for (const gpu::ParamInfo& param : source.graph.table.trained())
    tensors.push_back(exported(param, replica->params.data(), "base_model.model." + param.name));
  std::vector<store::TensorData> data;
  for (const gpu::NamedTensor& tensor : tensors) data.push_back(tensor_data(tensor));
  store::FileSystem& files = store::posix_file_system();
  ES_RETURN_IF_ERROR(store::make_directories(files, directory));
  ES_RETURN_IF_ERROR(
      store::write_safetensors(files, directory / "adapter_model.safetensors", data, *metadata));
  const std::string config = adapter_config(source).dump(2) + "\n";
  return store::write_new_file(
      files, directory / "adapter_config.json",
      [&](store::WritableFile& file) { return file.append(std::as_bytes(std::span(config))); });
}

// The names that torch.optim gives to its arrays; of a captured optimizer only that of the average.
std::vector<std::string> moment_names(const OptimizerSpec& optimizer) {
  std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
  if (optimizer.kind == "captured") names.clear();
  if (optimizer.kind == "sgd") names.assign(optimizer.momentum == 0.0 ? 0 : 1, "momentum_buffer");
  if (optimizer.ema > 0.0) names.emplace_back("ema");
  return names;
}

// The states of the optimizer that the model file brings.
Result<std::vector<gpu::NamedTensor>> captured_tensors(const CheckpointModel& source,
                                                       std::span<const gpu::HeldArray> moments) {
  const gpu::ParamTable& table = source.graph.table;
  const auto states = captured_states(source);
  if (!states) return states.error();
  std::vector<gpu::NamedTensor> tensors;
  for (const gpu::ParamState& state : *states)
    tensors.push_back({state_name(table, state), state.shape, state.values(table, moments)});
  return tensors;
}

Result<std::vector<gpu::NamedTensor>> moment_tensors(const CheckpointModel& source) {
  const auto moments = read_moments(source);
  if (!moments) return moments.error();
  std::vector<gpu::NamedTensor> tensors;
  std::size_t first = 0;  // of the arrays that have one name each
  if (source.graph.updates != nullptr) {
    auto captured = captured_tensors(source, *moments);
    if (!captured) return captured;
    tensors = *std::move(captured);
    first = moments->size() - (source.spec.optimizer.ema > 0.0 ? 1 : 0);
  }
  const std::vector<std::string> names = moment_names(source.spec.optimizer);
  for (std::size_t i = first; i < moments->size(); ++i) {
    if (i - first == names.size())
      return usage_error(source.spec.name + ": more arrays than optimizer " +
                         source.spec.optimizer.kind + " has");
    for (gpu::NamedTensor& t :
         optimizer_tensors(source.graph.table, (*moments)[i].data(), names[i - first]))
      tensors.push_back(std::move(t));
  }
  return tensors;
}

Status export_optimizer(const CheckpointModel& source, const std::string& file) {
  const auto tensors = moment_tensors(source);
  if (!tensors) return tensors.error();
  std::vector<store::TensorData> data;
  for (const gpu::NamedTensor& tensor : *tensors) data.push_back(tensor_data(tensor));
  const auto metadata = metadata_of(source);
  if (!metadata) return metadata.error();
  return store::write_safetensors(store::posix_file_system(), file, data, *metadata);
}

Status export_command(const ExportOptions& options, Console& console) {
  const auto source = open_checkpoint_model(options.checkpoint, options.data);
  if (!source) return source.error();
  ES_RETURN_IF_ERROR(has_adapters(*source) ? export_adapters(*source, options)
                                           : export_weights(*source, options));
  if (!options.optimizer.empty()) ES_RETURN_IF_ERROR(export_optimizer(*source, options.optimizer));
  const store::CheckpointHead& head = source->reader.head();
  const std::string digest = head.params_digest.hex();
  if (options.json)
    console.out << fields_json({{"file", options.file},
                                {"job", head.job_name},
                                {"step", head.version},
                                {"params_digest", digest}})
                << "\n";
  else
    console.out << table({{"file", options.file},
                          {"job", head.job_name},
                          {"step", std::to_string(head.version)},
                          {"params digest", digest}});
  return {};
}

}  // namespace

void add_export_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand(
      "export",
      "Write the weights of a checkpoint as safetensors, with the names and the layout of PyTorch");
  command->add_option("checkpoint", options->checkpoint, "The checkpoint")
      ->required()
      ->type_name("CHECKPOINT");
  command
      ->add_option("file", options->file,
                   "The new file; for a job with adapters the new directory that peft reads")
      ->required()
      ->type_name("FILE.safetensors|DIR");
  command->add_flag(
      "--ema", options->ema,
      "Write the weights that evaluations use: the average of the parameters, or those "
      "of a captured optimizer");
  command
      ->add_option("--optimizer", options->optimizer,
                   "Also write the optimizer's arrays to this new file")
      ->type_name("FILE.safetensors");
  command
      ->add_option("--data", options->data,
                   "The data of the job on this machine; the sizes of the model follow from them")
      ->type_name("PATH");
  add_json_option(*command, options->json);
  command->footer(
      "Batch norms and states get the contents of EST 0.\n"
      "Example:\n"
      "  esctl export checkpoints/resnet18-1/step-200 resnet18.safetensors");
  command->callback([options, &shell] {
    shell.exit_code = finish(export_command(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
