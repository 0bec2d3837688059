// esctl models pack | show: model files.
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/model_view.h"
#include "actors/job_model/job_model.h"
#include "gpu/import/check.h"
#include "proto/base/text_file.h"
#include "store/model_file/model_digest.h"
#include "store/model_file/model_file.h"
#include "store/model_file/model_json.h"

namespace es::actors::esctl {
namespace {

struct ModelFileOptions {
  std::string from;
  std::string to;
  bool json = false;
};

Status pack_model(const ModelFileOptions& options, Console& console) {
  const auto json = read_text_file(options.from, store::kModelBytesMax);
  if (!json) return json.error();
  const auto program = store::model_from_json(*json, options.from);
  if (!program) return program.error();
  const Status checked = gpu::check_program(*program);
  if (!checked.ok()) return usage_error(options.from + ": " + checked.error().message);
  ES_RETURN_IF_ERROR(store::write_model_file(store::posix_file_system(), options.to, *program));
  const Digest digest = store::model_digest(*program);
  console.out << (options.json ? packed_json(options.to, digest) + "\n"
                               : packed_text(options.to, digest));
  return {};
}

Status show_model(const ModelFileOptions& options, Console& console) {
  const auto program = read_model(options.from);
  if (!program) return program.error();
  console.out << (options.json ? store::model_to_json(*program) + "\n"
                               : program_text(*program, store::model_digest(*program)));
  return {};
}

void on_use(CLI::App& command, Shell& shell, const std::shared_ptr<ModelFileOptions>& options,
            Status (*run)(const ModelFileOptions&, Console&)) {
  command.callback([options, run, &shell] {
    shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace

void add_models_command(CLI::App& app, Shell& shell) {
  CLI::App* models = app.add_subcommand("models", "Write and show model files");
  models->require_subcommand(1);

  auto options = std::make_shared<ModelFileOptions>();
  CLI::App* pack =
      models->add_subcommand("pack", "Check the JSON form of a model and write it as a model file");
  pack->add_option("json", options->from, "The JSON form")->required()->type_name("MODEL.json");
  pack->add_option("-o,--output", options->to, "The new model file")
      ->required()
      ->type_name("FILE.esmodel");
  add_json_option(*pack, options->json);
  pack->footer("Example:\n  esctl models pack model.json -o net.esmodel");
  on_use(*pack, shell, options, pack_model);

  options = std::make_shared<ModelFileOptions>();
  CLI::App* show = models->add_subcommand(
      "show", "Show the inputs, parameters, kinds of nodes, outputs and digest of a model file");
  show->add_option("file", options->from, "The model file")->required()->type_name("FILE.esmodel");
  show->add_flag("--json", options->json, "Print the whole model in its JSON form");
  show->footer("Example:\n  esctl models show net.esmodel");
  on_use(*show, shell, options, show_model);
}

}  // namespace es::actors::esctl
