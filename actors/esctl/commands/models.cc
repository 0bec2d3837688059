// esctl models pack | show | write: model files.
#include "gpu/models/models.h"
#include "actors/base/program/program_version.h"
#include "actors/esctl/client/job_request.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/model_view.h"
#include "actors/worker/job_model/job_model.h"
#include "gpu/import/check.h"
#include "proto/base/check_ok.h"
#include "proto/base/text.h"
#include "proto/base/text_file.h"
#include "store/checkpoint/checkpoint.h"
#include "store/model_file/model_digest.h"
#include "store/model_file/model_file.h"
#include "store/model_file/model_json.h"

namespace es::actors::esctl {
namespace {

struct ModelFileOptions {
  std::string from;
  std::string to;
  std::uint32_t batch_size = 0;  // 0: the model is not imported
  bool json = false;
};

// Writes the model file and prints its name and digest.
Status write_program(const ModelFileOptions& options, const ModelProgram& program,
                     Console& console) {
  ES_RETURN_IF_ERROR(store::write_model_file(store::posix_file_system(), options.to, program));
  const Digest digest = store::model_digest(program);
  console.out << (options.json ? packed_json(options.to, digest) + "\n"
                               : packed_text(options.to, digest));
  return {};
}

Status pack_model(const ModelFileOptions& options, Console& console) {
  const auto json = read_text_file(options.from, store::kModelBytesMax);
  if (!json) return json.error();
  const auto program = store::model_from_json(*json, options.from);
  if (!program) return program.error();
  const Status checked = gpu::check_program(*program);
  if (!checked.ok()) return usage_error(options.from + ": " + checked.error().message);
  if (options.batch_size > 0) {
    const auto graph = JobModel::graph_of(*program, options.batch_size);
    if (!graph) return usage_error(options.from + ": " + graph.error().message);
  }
  return write_program(options, *program, console);
}

// The data of the job decide the shapes: image sides, classes, tokens, rows of embeddings.
Result<ModelProgram> built_in_program(const JobSpec& spec) {
  const auto model = JobModel::open(spec.model);
  if (!model) return model.error();
  const auto data = model->data_facts(spec);
  if (!data) return data.error();
  return gpu::write_model(spec.model, spec.batch_size, data->layout);
}

Status write_built_in(const ModelFileOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(store::check_free(options.to));  // before the computation, not after it
  const auto spec = make_spec(options.from, {}, StartPoint{.checkpoint = {}, .version = 0});
  if (!spec) return spec.error();
  if (!spec->model.file.empty())
    return usage_error(options.from + ": model.file = \"" + escaped(spec->model.file) +
                       "\": allowed is a job with a built-in model (model.name)");
  auto program = built_in_program(*spec);
  if (!program) return program.error();
  program->producer = "easyscale " + release();
  ES_CHECK_OK(gpu::check_program(*program), "the program of a built-in model");
  return write_program(options, *program, console);
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
  pack->add_option("model", options->from, "The JSON form")->required()->type_name("MODEL.json");
  pack->add_option("-o,--output", options->to, "The new model file")
      ->required()
      ->type_name("FILE.esmodel");
  pack->add_option("--batch-size", options->batch_size,
                   "Check as well that the engine executes it for mini-batches of N samples")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  add_json_option(*pack, options->json);
  pack->footer("Example:\n  esctl models pack model.json -o net.esmodel --batch-size 32");
  on_use(*pack, shell, options, pack_model);

  options = std::make_shared<ModelFileOptions>();
  CLI::App* write = models->add_subcommand(
      "write", "Write the built-in model of a job as a model file, which trains to the same bits");
  write->add_option("job", options->from, "Job specification")->required()->type_name("JOB.toml");
  write->add_option("-o,--output", options->to, "The new model file")
      ->required()
      ->type_name("FILE.esmodel");
  add_json_option(*write, options->json);
  write->footer(
      "The data of the job decide shapes, for example the number of classes. The file gives the "
      "initial values of the parameters too; a job trains it with [model] file = "
      "\"FILE.esmodel\" in place of the other keys of [model].\n"
      "Example:\n  esctl models write configs/jobs/resnet18.toml -o resnet18.esmodel");
  on_use(*write, shell, options, write_built_in);

  options = std::make_shared<ModelFileOptions>();
  CLI::App* show = models->add_subcommand(
      "show", "Show the inputs, parameters, kinds of nodes, outputs and digest of a model file");
  show->add_option("file", options->from, "The model file")->required()->type_name("FILE.esmodel");
  show->add_flag("--json", options->json, "Print the whole model in its JSON form");
  show->footer("Example:\n  esctl models show net.esmodel");
  on_use(*show, shell, options, show_model);
}

}  // namespace es::actors::esctl
