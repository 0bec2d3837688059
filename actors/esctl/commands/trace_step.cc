#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/job_request.h"
#include "actors/esctl/commands/commands.h"
#include "actors/worker/state/step_trace.h"

namespace es::actors::esctl {
namespace {

struct TraceStepOptions {
  std::string file;
  std::string device_type;
  std::string from;
  Version step = 0;
  bool json = false;
};

Status trace(const TraceStepOptions& options, Console& console) {
  auto spec = read_job_file(options.file);
  if (!spec) return spec.error();
  const auto steps = total_steps(*spec);
  if (!steps) return steps.error();
  spec->steps = *steps;
  spec->epochs = 0;
  if (options.step == 0) return usage_error("--step = 0: allowed is 1 and more");
  const auto traced = worker::trace_step({.spec = *spec,
                                          .device = {options.device_type},
                                          .step = options.step - 1,
                                          .checkpoint = options.from});
  if (!traced) return traced.error();
  console.out << worker::encode(*traced);
  return {};
}

}  // namespace

void add_trace_step_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<TraceStepOptions>();
  CLI::App* command = app.add_subcommand(
      "trace-step", "Run one step in this process and print a digest of every result");
  command->add_option("job", options->file, "Job specification")->required()->type_name("JOB.toml");
  command->add_option("--step", options->step, "The step to trace; the steps before it run too")
      ->required()
      ->type_name("N");
  command->add_option("--device", options->device_type, "Device type to run on, e.g. cpu-avx2")
      ->required()
      ->type_name("TYPE");
  command->add_option("--from", options->from, "Begin from this checkpoint")->type_name("DIR");
  command->footer(
      "`esctl diff --deep` runs this command for each side. Each line is DIGEST NAME.\n"
      "Example:\n"
      "  esctl trace-step configs/jobs/tiny_resnet18.toml --step 1 --device cpu-scalar");
  command->callback([options, &shell] {
    shell.exit_code = finish(trace(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
