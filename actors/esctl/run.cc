#include <filesystem>

#include "actors/config/default_devices.h"
#include "actors/esctl/commands.h"
#include "actors/esctl/d2_cost.h"
#include "actors/esctl/options.h"
#include "actors/esctl/process.h"
#include "actors/esctl/render_json.h"
#include "actors/esctl/requests.h"
#include "actors/esctl/stop_signals.h"

namespace es::actors::esctl {
namespace {

struct Options {
  JobOptions job;
  std::string checkpoint;
  std::string keep;
  bool quiet = false;
  bool json = false;
};

// A job with a daemon of its own. The first stop signal cancels the job and ends in good order, the
// second one kills what is left.
class Run {
 public:
  Run(const Options& options, Console& console) : options_(options), console_(console) {}

  Status start(const std::filesystem::path& easyscaled);
  // The job's end, or why there is none. Afterwards the daemon is gone.
  Result<JobView> train(const JobSpec& spec, const StartPoint& start);
  // The signal that ended the run early, or 0.
  int stop_signal() const { return signals_.first(); }

 private:
  Result<JobView> submit_and_follow(const JobSpec& spec, const StartPoint& start);
  Result<JobView> stop_early();
  void shut_down();

  const Options& options_;
  Console& console_;
  StopSignals signals_;
  int signals_max_ = 0;  // more of them end what is waited for
  std::unique_ptr<PrivateDaemon> daemon_;
  std::unique_ptr<Client> client_;
  JobId job_;  // once it was accepted
};

Status Run::start(const std::filesystem::path& easyscaled) {
  auto daemon = PrivateDaemon::start({.executable = easyscaled,
                                      .devices = default_devices(),
                                      .keep = options_.keep,
                                      .rescue = std::filesystem::current_path()},
                                     signals_);
  if (!daemon) return daemon.error();
  daemon_ = *std::move(daemon);
  const Interrupt interrupt{.fd = signals_.fd(), .raised = [this] {
                              signals_.take();
                              return signals_.count() > signals_max_;
                            }};
  auto client = Client::connect({.endpoint = daemon_->endpoint(), .keys = std::nullopt}, interrupt);
  if (!client) return client.error();
  client_ = *std::move(client);
  return {};
}

Result<JobView> Run::train(const JobSpec& spec, const StartPoint& start) {
  Result<JobView> end = submit_and_follow(spec, start);
  if (!end && stop_signal() != 0 && !job_.empty()) end = stop_early();
  shut_down();
  if (end || end.error().kind != ErrorKind::kFailure || stop_signal() != 0) return end;
  const std::string log = daemon_->log_tail();
  return failure(end.error().message + (log.empty() ? "" : "; its log ends with\n" + log));
}

Result<JobView> Run::submit_and_follow(const JobSpec& spec, const StartPoint& start) {
  Result<JobId> job = submit_job(*client_, spec, start);
  if (!job) return job.error();
  job_ = *std::move(job);
  Progress progress(console_, options_.quiet);
  return follow_job(*client_, job_, progress);
}

Result<JobView> Run::stop_early() {
  signals_max_ = 1;
  console_.err << "esctl: stopping job " << job_ << " (once more: at once)" << std::endl;
  if (!options_.checkpoint.empty()) {
    const auto taken = checkpoint_job(*client_, job_, options_.checkpoint);
    if (taken)
      console_.err << "esctl: checkpoint of step " << taken->version << " is in " << taken->path
                   << std::endl;
    else
      report(taken.error(), false, console_);
  }
  ES_RETURN_IF_ERROR(cancel_job(*client_, job_));
  Result<JobDetailsView> details = describe_job(*client_, job_);
  if (!details) return details.error();
  return std::move(details->job);
}

void Run::shut_down() {
  signals_max_ = 1;
  // Whether it was done shows in the daemon's end.
  (void)client_->ask<wire::Done, wire::Shutdown>({}, [](wire::Shutdown::Builder) {});
  client_.reset();
  daemon_->stop(signals_max_);
}

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
  ES_RETURN_IF_ERROR(resolve_auto_level(*spec, console));
  ES_RETURN_IF_ERROR(check_devices(*spec, default_devices()));
  const Result<std::filesystem::path> easyscaled = find_easyscaled();
  if (!easyscaled) return easyscaled.error();

  Run run(options, console);
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
