// esctl eval: the metrics of a checkpoint on evaluation samples, without a head.
#include "actors/esctl/client/checkpoint_model.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"
#include "actors/worker/device/evaluation_run.h"
#include "store/metrics/metric.h"

namespace es::actors::esctl {
namespace {

struct EvalOptions {
  std::string checkpoint;
  std::string data;  // replaces the job's data.path
  RunDevice device;
  bool json = false;
};

Result<EvaluationView> evaluate_checkpoint(const EvalOptions& options) {
  const auto source = open_checkpoint_model(options.checkpoint, options.data);
  if (!source) return source.error();
  const JobSpec& spec = source->spec;
  const auto samples = source->model.open_samples(spec);
  if (!samples) return samples.error();
  if ((*samples)->eval_count() == 0)
    return usage_error("the data of job " + spec.name +
                       " have no evaluation samples; name others with --data");
  ES_RETURN_IF_ERROR(check_eval_count(source->graph, spec, (*samples)->eval_count(),
                                      source->model.inputs().get()));
  const auto engine = trained_engine(*source, options.device);
  if (!engine) return engine.error();
  const Version version = source->reader.head().version;
  const auto bytes = worker::evaluate(**engine, spec, *samples, source->model.inputs().get(),
                                      version, nullptr, [] { return false; });
  if (!bytes) return bytes.error();
  const auto totals = store::MetricTotals::decode(**bytes);
  if (!totals) return totals.error();
  EvaluationView view{version, totals->samples, {}};
  for (const store::NamedMetric& m : store::summarise(spec, *totals))
    view.metrics.push_back({m.name, m.value});
  return view;
}

Status eval_command(const EvalOptions& options, Console& console) {
  const auto view = evaluate_checkpoint(options);
  if (!view) return view.error();
  console.out << (options.json ? evaluation_json(*view) : evaluation_text(*view)) << "\n";
  return {};
}

}  // namespace

void add_eval_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand(
      "eval", "Compute the metrics of a checkpoint on evaluation samples, on this machine");
  command->add_option("checkpoint", options->checkpoint, "The checkpoint")
      ->required()
      ->type_name("CHECKPOINT");
  command
      ->add_option("--data", options->data,
                   "The data, in the form of the job's; by default those of the job")
      ->type_name("PATH");
  add_device_options(*command, options->device);
  add_json_option(*command, options->json);
  command->footer(
      "The kernels are those of level D2. For a job of this level the metrics are the same, to the "
      "last bit, as those of the evaluation after the same step.\n"
      "Example:\n"
      "  esctl eval checkpoints/resnet18-1/step-200 --data /srv/cifar10");
  command->callback([options, &shell] {
    shell.exit_code = finish(eval_command(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
