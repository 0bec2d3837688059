#include <filesystem>

#include "actors/config/default_devices.h"
#include "actors/esctl/commands.h"
#include "actors/esctl/d2_cost.h"
#include "actors/esctl/options.h"
#include "actors/esctl/private_run.h"
#include "actors/esctl/render_json.h"
#include "actors/esctl/requests.h"

namespace es::actors::esctl {
namespace {

struct Options {
  JobOptions job;
  std::string checkpoint;
  std::string keep;
  bool quiet = false;
  bool json = false;
};

Result<int> run(Options& options, Console& console) {
  std::error_code code;
  if (!options.checkpoint.empty()) {
    options.checkpoint = std::filesystem::absolute(options.checkpoint, code).string();
    if (std::filesystem::exists(options.checkpoint, code))
      return refused("--checkpoint " + options.checkpoint + " exists; allowed is a new directory");
  }
  const Result<StartPoint> start = open_start_point(options.job.from, false);
  if (!start) return start.error();
  Result<JobSpec> spec = make_spec(options.job.file, options.job.changes, *start);
  if (!spec) return spec.error();
  ES_RETURN_IF_ERROR(resolve_auto_level(*spec, *start, console));
  ES_RETURN_IF_ERROR(check_devices(*spec, default_devices()));
  const Result<std::filesystem::path> easyscaled = find_easyscaled();
  if (!easyscaled) return easyscaled.error();

  const PrivateRunOptions run_options{
      .checkpoint = options.checkpoint, .keep = options.keep, .quiet = options.quiet};
  PrivateRun run(run_options, console);
  Status started = run.start(*easyscaled);
  const Result<JobView> end = started ? run.train(*spec, *start) : Result<JobView>(started.error());
  const int stopped = 128 + run.stop_signal();
  if (!end) {
    const int failed = report(end.error(), options.json, console);
    return run.stop_signal() != 0 ? stopped : failed;
  }
  const int ended = print_end(*end, options.json, console);
  return ended != 0 && run.stop_signal() != 0 ? stopped : ended;
}

}  // namespace

void add_run_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Train a job here and now, without a daemon");
  add_job_options(*command, options->job);
  command
      ->add_option("--devices", options->job.changes.devices,
                   "Stay on these devices, e.g. cpu-avx2:3; without this and stages the scheduler "
                   "decides")
      ->type_name("DEVICES")
      ->excludes("--stages");
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "When stopped by Ctrl-C or SIGTERM, first write a checkpoint to this new "
                   "directory, to go on from with --from")
      ->type_name("DIR");
  command
      ->add_option("--keep", options->keep,
                   "Keep the run's journal, ledger and logs in this new directory")
      ->type_name("DIR");
  command->add_flag("--quiet", options->quiet, "Show no progress, only the summary");
  add_json_option(*command, options->json);
  command->footer(
      "Progress goes to standard error, the summary to standard output. A job that fails because "
      "its\n"
      "data cannot be read leaves its last state in JOB-step-N here, to go on from with --from.\n"
      "Example:\n  esctl run configs/jobs/small_cnn.toml\n"
      "  esctl run configs/jobs/resnet18_synthetic.toml --level D2 \\\n"
      "      --stages cpu-avx512:4@20,cpu-avx2:2@20,cpu-scalar:1+cpu-avx2:1@20");
  command->callback([options, &shell] {
    shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
