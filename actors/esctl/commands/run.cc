#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "actors/base/program/default_devices.h"
#include "actors/base/program/default_paths.h"
#include "actors/esctl/client/d2_cost.h"
#include "actors/esctl/client/live_tracking.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/private_run.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/client/trace_request.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/trace_file.h"
#include "actors/views/render_json.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;

struct RunOptions {
  JobOptions job;
  std::string checkpoint;
  std::string keep;
  TrackingOptions tracking;
  std::string trace;  // a new file; empty: no trace
  std::uint32_t trace_steps = 20;
  bool quiet = false;
  bool json = false;
};

// Checks whether a checkpoint can be written there, before the job computes for hours.
Status check_checkpoint_place(RunOptions& options) {
  if (options.checkpoint.empty()) return {};
  std::error_code code;
  fs::path directory = fs::absolute(options.checkpoint, code).lexically_normal();
  if (!directory.has_filename()) directory = directory.parent_path();
  options.checkpoint = directory.string();
  if (fs::exists(fs::symlink_status(directory, code)))
    return refused("--checkpoint " + options.checkpoint + " exists; allowed is a new directory");
  const fs::path parent = directory.parent_path();
  if (!fs::is_directory(parent, code))
    return not_found("--checkpoint " + options.checkpoint + ": there is no directory " +
                     parent.string() + "; allowed is a new directory in an existing one");
  if (::access(parent.c_str(), W_OK | X_OK) != 0)
    return refused("--checkpoint " + options.checkpoint + ": directory " + parent.string() + ": " +
                   std::generic_category().message(errno));
  return {};
}

void say_what_is_kept(const RunOptions& options, const JobSpec& spec, Console& console) {
  if (options.quiet || !options.checkpoint.empty() || spec.checkpoint.every_steps != 0) return;
  console.err << "esctl: the weights of this run will not be kept; --checkpoint DIR keeps them"
              << std::endl;
}

// Returns what a worker of a failed job has kept in the current directory.
std::optional<KeptWeights> rescued_weights(const JobView& end) {
  const std::string prefix = rescued_state_prefix(end.id);
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(fs::current_path(code), code)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const auto reader = store::CheckpointReader::open(entry.path().string());
    if (reader) return KeptWeights{entry.path().string(), reader->head().version};
  }
  return std::nullopt;
}

// Returns the requested checkpoint, or otherwise the newest one of the job. No value means that the
// weights are lost at the end of the run.
std::optional<KeptWeights> kept_weights(const PrivateRun& run, const JobView& end) {
  if (run.checkpoint() && *run.checkpoint())
    return KeptWeights{(*run.checkpoint())->path, (*run.checkpoint())->version};
  if (end.state == "failed")
    if (auto rescued = rescued_weights(end)) return rescued;
  if (end.checkpoint.empty()) return std::nullopt;
  const auto reader = store::CheckpointReader::open(end.checkpoint);
  if (!reader) return std::nullopt;
  return KeptWeights{end.checkpoint, reader->head().version};
}

// Returns the fault of the requested checkpoint; empty if there is none.
std::string checkpoint_error(const PrivateRun& run, const JobView& end) {
  if (!run.checkpoint()) return {};
  const Result<CheckpointView>& taken = *run.checkpoint();
  if (!taken && end.state == "failed") return {};  // the error of the job says enough
  if (!taken) return "no checkpoint is written: " + taken.error().message;
  if (taken->first_error.empty()) return {};
  return "the checkpoint of step " + std::to_string(taken->version) + " is in " + taken->path +
         ", because it could not be written to the directory of --checkpoint: " +
         taken->first_error;
}

// Writes the curves of a run to the trackers. What they could not take is lost with the daemon, so
// that is said. It never changes the result of the run.
class RunTracking {
 public:
  RunTracking(const TrackingOptions& options, Console& console)
      : options_(options), console_(console) {}

  RunObserver observer() {
    if (!options_.any()) return {};
    return {[this](const HeadAddress& address) { begin(address); },
            [this](const JobView& view) {
              if (live_) live_->see(view);
            },
            [this](const JobView& view) { end(view); }};
  }

 private:
  void begin(const HeadAddress& address) {
    auto reader = Client::connect(address, {});
    if (reader)
      live_.emplace(options_, *std::move(reader), console_);
    else
      warn(reader.error());
  }
  void end(const JobView& view) {
    const Status done = live_ ? live_->finish(view) : Status();
    if (!done.ok()) warn(done.error());
  }
  void warn(const Error& error) {
    console_.err << "esctl: warning: the curves of this run are not complete: " << error.message
                 << std::endl;
  }

  const TrackingOptions& options_;
  Console& console_;
  std::optional<LiveTracking> live_;
};

// Records the first steps of a run. As with the trackers, an error never changes the result of the
// run.
class RunTrace {
 public:
  RunTrace(const RunOptions& options, Console& console) : options_(options), console_(console) {}

  void accepted(const HeadAddress& address) {
    if (options_.trace.empty()) return;
    auto client = Client::connect(address, {});
    if (client)
      client_ = *std::move(client);
    else
      warn(client.error());
  }
  // The request waits in the head until the job trains.
  void seen(const JobView& view) {
    if (client_ == nullptr || request_) return;
    request_ = begin_trace(*client_, view.id, {.steps = options_.trace_steps, .wait = true});
  }
  void ended() {
    if (client_ == nullptr || !request_) return;
    const auto trace = collect_trace(*client_, *request_);
    const Status written = trace ? write_trace(options_.trace, *trace) : Status(trace.error());
    if (!written.ok()) return warn(written.error());
    if (!options_.quiet)
      console_.err << "esctl: trace of " << traced_text(options_.trace, *trace) << std::flush;
  }

 private:
  void warn(const Error& error) {
    console_.err << "esctl: warning: there is no trace of this run: " << error.message << std::endl;
  }

  const RunOptions& options_;
  Console& console_;
  std::unique_ptr<Client> client_;
  std::optional<std::uint64_t> request_;
};

RunObserver both(RunObserver tracking, RunTrace& trace) {
  return {[tracking, &trace](const HeadAddress& address) {
            if (tracking.accepted) tracking.accepted(address);
            trace.accepted(address);
          },
          [tracking, &trace](const JobView& view) {
            if (tracking.seen) tracking.seen(view);
            trace.seen(view);
          },
          [tracking, &trace](const JobView& view) {
            if (tracking.ended) tracking.ended(view);
            trace.ended();
          }};
}

Result<int> run(RunOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(check_checkpoint_place(options));
  ES_RETURN_IF_ERROR(check_tracking(options.tracking));
  if (!options.trace.empty()) ES_RETURN_IF_ERROR(check_new_file("--trace", options.trace));
  const Result<StartPoint> start = open_start_point(options.job.from, false);
  if (!start) return start.error();
  Result<JobSpec> spec = make_spec(options.job.file, options.job.changes, *start,
                                   ByteProgress::of_texts(console, options.quiet));
  if (!spec) return spec.error();
  // This command writes the curves itself, because its daemon ends with the job. An option counts
  // more than the job file.
  if (options.tracking.tensorboard.empty()) options.tracking.tensorboard = spec->log.tensorboard;
  if (options.tracking.mlflow.empty() && !spec->log.mlflow.empty()) {
    options.tracking.mlflow = spec->log.mlflow;
    options.tracking.experiment = spec->log.experiment;
  }
  spec->log = {};
  ES_RETURN_IF_ERROR(resolve_auto_level(*spec, *start, console));
  ES_RETURN_IF_ERROR(check_devices(*spec, default_devices()));
  const Result<fs::path> easyscaled = find_easyscaled();
  if (!easyscaled) return easyscaled.error();

  RunTracking tracking(options.tracking, console);
  RunTrace trace(options, console);
  const PrivateRunOptions run_options{.checkpoint = options.checkpoint,
                                      .keep = options.keep,
                                      .quiet = options.quiet,
                                      .observer = both(tracking.observer(), trace)};
  PrivateRun run(run_options, console);
  say_what_is_kept(options, *spec, console);
  Status started = run.start(*easyscaled);
  const Result<JobView> end = started ? run.train(*spec, *start) : Result<JobView>(started.error());
  const int stopped = 128 + run.stop_signal();
  if (!end) {
    const bool unwritten = run.checkpoint() && !*run.checkpoint();
    const int failed = report(
        {end.error().kind, end.error().message + (unwritten ? "; no checkpoint is written" : "")},
        options.json, console);
    return run.stop_signal() != 0 ? stopped : failed;
  }
  const std::string unwritten = checkpoint_error(run, *end);
  const int ended = print_run_end(*end, kept_weights(run, *end), unwritten, options.json, console);
  if (!unwritten.empty()) return ended;
  return ended != 0 && run.stop_signal() != 0 ? stopped : ended;
}

}  // namespace

void add_run_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Train a job on this machine, without a running daemon");
  add_job_options(*command, options->job);
  command
      ->add_option("--devices", options->job.changes.devices,
                   "Use these devices for all steps, e.g. cpu-avx2:3; without this option and "
                   "stages the scheduler decides")
      ->type_name("DEVICES")
      ->excludes("--stages");
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "Keep the weights: at the last step, or when Ctrl-C or SIGTERM stops the run, "
                   "write a checkpoint to this new directory, for --from or for esctl export")
      ->type_name("DIR");
  command
      ->add_option("--keep", options->keep,
                   "Keep the run's journal, ledger and logs in this new directory")
      ->type_name("DIR");
  add_tracking_options(*command, options->tracking);
  command
      ->add_option("--trace", options->trace,
                   "Record what all processes do in the first steps, into this new file for "
                   "Perfetto (see esctl trace)")
      ->type_name("FILE");
  command->add_option("--trace-steps", options->trace_steps, "Number of steps of --trace")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->needs("--trace")
      ->capture_default_str();
  command->add_flag("--quiet", options->quiet, "Show no progress, only the summary");
  add_json_option(*command, options->json);
  command->footer(
      "Progress goes to standard error, the summary to standard output. Without --checkpoint and\n"
      "without [checkpoint] in the job file the weights are not kept. If the checkpoint cannot be\n"
      "written there, it is written to the directory JOB in the current one, and the run ends with "
      "an\n"
      "error. A job that fails because its data cannot be read leaves its last state in the "
      "directory\n"
      "JOB-step-N of the current one, for --from.\n"
      "Example:\n"
      "  esctl run configs/jobs/small_cnn.toml --checkpoint small_cnn\n"
      "  esctl run configs/jobs/resnet18_synthetic.toml --level D2 \\\n"
      "      --stages cpu-avx512:4@20,cpu-avx2:2@20,cpu-scalar:1+cpu-avx2:1@20");
  command->callback([options, &shell] {
    shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
