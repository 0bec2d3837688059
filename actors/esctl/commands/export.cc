#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "actors/esctl/client/checkpoint_model.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/views/render_json.h"
#include "actors/esctl/views/render_text.h"
#include "actors/version/checkpoint_sections.h"
#include "actors/version/initial_weights.h"
#include "gpu/optim/replica.h"
#include "store/checkpoint/checkpoint.h"
#include "store/dataset/images/image_folder.h"
#include "store/dataset/images/pixel_writer.h"

namespace es::actors::esctl {
namespace {

struct ExportOptions {
  std::string checkpoint;
  std::string file;
  std::string optimizer;  // file for the optimizer arrays; empty if they are not exported
  std::string data;       // replaces the job's data.path
  bool json = false;
};

Status read_array(const CheckpointModel& source, const std::string& section,
                  gpu::AlignedBuffer& out) {
  out = gpu::AlignedBuffer(source.graph.table.total_floats());
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

Status export_weights(const CheckpointModel& source, const std::string& file) {
  gpu::Replica replica;
  ES_RETURN_IF_ERROR(read_array(source, kParamsSection, replica.params));
  const Digest found = gpu::params_digest(source.graph.table, replica);
  const store::CheckpointHead& head = source.reader.head();
  if (found != head.params_digest)
    return usage_error(file + ": parameters with digest " + found.hex() + ": allowed is " +
                       head.params_digest.hex() + "; these are not the data of the job");
  const auto bytes = source.reader.read(context_section(0));
  if (!bytes) return bytes.error();
  const auto context = gpu::decode_context(*bytes, source.graph.table.stat_floats());
  if (!context) return context.error();
  const auto metadata = metadata_of(source);
  if (!metadata) return metadata.error();
  const StateDict state(source.graph.table, replica.params.data(), context->stats.data(),
                        head.version);
  return store::write_safetensors(store::posix_file_system(), file, state.tensors(), *metadata);
}

// The names that torch.optim gives to its arrays.
std::vector<std::string> moment_names(const OptimizerSpec& optimizer) {
  if (optimizer.kind == "sgd") return {"momentum_buffer"};
  return {"exp_avg", "exp_avg_sq"};
}

Status export_optimizer(const CheckpointModel& source, const std::string& file) {
  std::vector<gpu::NamedTensor> tensors;
  const std::vector<std::string> names = moment_names(source.spec.optimizer);
  for (std::size_t i = 0; source.reader.find(moment_section(i)) != nullptr; ++i) {
    if (i == names.size())
      return usage_error(source.spec.name + ": more arrays than optimizer " +
                         source.spec.optimizer.kind + " has");
    gpu::AlignedBuffer array;
    ES_RETURN_IF_ERROR(read_array(source, moment_section(i), array));
    for (gpu::NamedTensor& t : optimizer_tensors(source.graph.table, array.data(), names[i]))
      tensors.push_back(std::move(t));
  }
  std::vector<store::TensorData> data;
  for (const gpu::NamedTensor& tensor : tensors) data.push_back(tensor_data(tensor));
  const auto metadata = metadata_of(source);
  if (!metadata) return metadata.error();
  return store::write_safetensors(store::posix_file_system(), file, data, *metadata);
}

Status export_command(const ExportOptions& options, Console& console) {
  const auto source = open_checkpoint_model(options.checkpoint, options.data);
  if (!source) return source.error();
  ES_RETURN_IF_ERROR(export_weights(*source, options.file));
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
  command->add_option("file", options->file, "The new file")
      ->required()
      ->type_name("FILE.safetensors");
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
      "Batch norms get the statistics of EST 0.\n"
      "Example:\n"
      "  esctl export checkpoints/resnet18-1/step-200 resnet18.safetensors");
  command->callback([options, &shell] {
    shell.exit_code = finish(export_command(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
