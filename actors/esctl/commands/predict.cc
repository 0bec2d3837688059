// esctl predict: the outputs of a trained model for samples in NumPy arrays, without a head.
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/prediction.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"
#include "store/checkpoint/checkpoint.h"
#include "store/dataset/arrays/npz_file.h"
#include "store/safetensors/safetensors.h"

namespace es::actors::esctl {
namespace {

struct PredictOptions {
  std::string checkpoint;
  std::string input;
  std::string out;
  std::string data;  // replaces the job's data.path
  RunDevice device;
  bool json = false;
};

Result<std::vector<Prediction>> predict_outputs(const PredictOptions& options) {
  const auto source = open_checkpoint_model(options.checkpoint, options.data);
  if (!source) return source.error();
  const auto input = PredictionInput::open(*source, options.input);
  if (!input) return input.error();
  const auto engine = trained_engine(*source, options.device);
  if (!engine) return engine.error();
  return predict(**engine, *source, *input);
}

Status predict_command(const PredictOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(store::check_free(options.out));  // before the computation, not after it
  const auto outputs = predict_outputs(options);
  if (!outputs) return outputs.error();
  std::vector<store::NpzArray> arrays;
  for (const Prediction& p : *outputs) arrays.push_back({p.name, p.shape, p.values});
  ES_RETURN_IF_ERROR(store::write_npz(options.out, arrays));
  std::vector<std::pair<std::string, AnswerValue>> fields{{"file", options.out}};
  std::vector<std::vector<std::string>> rows{{"file", options.out}};
  for (const Prediction& p : *outputs) {
    fields.emplace_back(p.name, store::shape_text(p.shape));
    rows.push_back({p.name, store::shape_text(p.shape)});
  }
  console.out << (options.json ? fields_json(fields) + "\n" : table(rows));
  return {};
}

}  // namespace

void add_predict_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command = app.add_subcommand(
      "predict", "Run the model of a checkpoint on samples and write its outputs, on this machine");
  command->add_option("checkpoint", options->checkpoint, "The checkpoint")
      ->required()
      ->type_name("CHECKPOINT");
  command
      ->add_option("input", options->input,
                   "The samples: one array for each input of the model, in an archive of NumPy "
                   "arrays or as NAME.npy in a directory")
      ->required()
      ->type_name("INPUT.npz|DIR");
  command->add_option("--out", options->out, "The new archive with the outputs")
      ->required()
      ->type_name("OUTPUT.npz");
  command
      ->add_option("--data", options->data,
                   "The data of the job on this machine; the sizes of a built-in model follow from "
                   "them")
      ->type_name("PATH");
  add_device_options(*command, options->device);
  add_json_option(*command, options->json);
  command->footer(
      "Images are [samples, channels, height, width]. Pixels of type u1 are normalised as the job "
      "normalises its images; other numbers are taken as they are. Inputs that only the loss reads "
      "are not needed.\n"
      "Example:\n"
      "  esctl predict checkpoints/resnet18-1/step-200 images.npz --out logits.npz");
  command->callback([options, &shell] {
    shell.exit_code =
        finish(predict_command(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
