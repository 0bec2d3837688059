#include "actors/esctl/client/private_run.h"

#include "actors/base/program/default_devices.h"
#include "actors/views/progress.h"
#include "store/checkpoint/catalog.h"

namespace es::actors::esctl {

namespace fs = std::filesystem;

Status PrivateRun::start(const std::filesystem::path& easyscaled) {
  std::error_code code;
  const fs::path here = fs::current_path(code);
  if (code && options_.rescue) return failure("the current directory: " + code.message());
  // The daemon comes first, because it is forked, and the client has threads.
  auto daemon = PrivateDaemon::start({.executable = easyscaled,
                                      .devices = default_devices(),
                                      .keep = options_.keep,
                                      .rescue = options_.rescue ? here : fs::path()},
                                     signals_);
  if (!daemon) return daemon.error();
  daemon_ = *std::move(daemon);
  const Interrupt interrupt{.fd = signals_.fd(), .raised = [this] {
                              signals_.take();
                              return signals_.count() > signals_max_;
                            }};
  auto client = Client::connect(address(), interrupt);
  if (!client) return client.error();
  client_ = *std::move(client);
  return {};
}

HeadAddress PrivateRun::address() const {
  return {.endpoint = daemon_->endpoint(), .keys = std::nullopt};
}

Result<JobView> PrivateRun::train(const JobSpec& spec, const StartPoint& start) {
  Result<JobView> end = submit_and_follow(spec, start);
  // After the first signal the job is stopped with its checkpoint. stop_early() sets signals_max_
  // to 1, so only a second signal interrupts that.
  if (!end && stop_signal() != 0 && !job_.empty()) end = stop_early();
  if (end && daemon_->removes(end->checkpoint)) end->checkpoint.clear();
  if (end && options_.observer.ended) options_.observer.ended(*end);
  shut_down();
  // The log explains a failure. It does not explain a request that the head refused, or an end that
  // the user has asked for.
  if (end || end.error().kind != ErrorKind::kFailure || stop_signal() != 0) return end;
  const std::string log = daemon_->log_tail();
  return failure(end.error().message + (log.empty() ? "" : "; its log ends with\n" + log));
}

Result<JobView> PrivateRun::submit_and_follow(const JobSpec& spec, const StartPoint& start) {
  Result<JobId> job = submit_job(*client_, spec, start);
  if (!job) return job.error();
  job_ = *std::move(job);
  // At once and not at the end, when no worker holds the version any more.
  ask_for_checkpoint();
  if (options_.observer.accepted) options_.observer.accepted(address());
  Progress progress(console_, options_.quiet);
  Result<JobView> end = follow_job(*client_, job_, progress, options_.observer.seen);
  if (end) collect_checkpoint();
  if (end && options_.at_end) ES_RETURN_IF_ERROR(options_.at_end(*client_, job_));
  return end;
}

// The place for the checkpoint if the requested directory cannot be written: the working directory,
// where the user will look for it. Empty if there is none.
fs::path PrivateRun::elsewhere() const {
  std::error_code code;
  const fs::path here = fs::current_path(code);
  return code || job_.empty() ? fs::path() : here / job_;
}

void PrivateRun::ask_for_checkpoint() {
  if (options_.checkpoint.empty()) return;
  asked_ = client_->post<wire::CheckpointJob>(job_, [&](wire::CheckpointJob::Builder b) {
    b.setDirectory(options_.checkpoint);
    b.setAtEnd(true);
    b.setOtherwise(elsewhere().string());
  });
}

void PrivateRun::collect_checkpoint() {
  if (!asked_) return;
  const auto taken = client_->collect<wire::CheckpointTaken>(*std::exchange(asked_, {}));
  checkpoint_ = taken ? taken->decode(read_checkpoint) : Result<CheckpointView>(taken.error());
}

Result<JobView> PrivateRun::stop_early() {
  signals_max_ = 1;
  console_.err << "esctl: stopping job " << job_ << (asked_ ? " with a checkpoint" : "")
               << " (a second signal stops it at once)" << std::endl;
  // The request to cancel comes before the wait for the checkpoint, which is written only at the
  // boundary where the job ends.
  const std::uint64_t cancel =
      client_->post<wire::CancelJob>(job_, [](wire::CancelJob::Builder) {});
  collect_checkpoint();
  // A job that has ended meanwhile refuses the request, but it can still be described.
  const auto cancelled = client_->collect<wire::Done>(cancel);
  Result<JobDetailsView> details = describe_job(*client_, job_);
  if (details) return std::move(details->job);
  return cancelled ? details.error() : cancelled.error();
}

void PrivateRun::shut_down() {
  signals_max_ = 1;
  // The answer is ignored, because the end of the daemon shows whether the request was obeyed.
  (void)client_->ask<wire::Done, wire::Shutdown>({}, [](wire::Shutdown::Builder) {});
  client_.reset();
  daemon_->stop(signals_max_);
  remove_unfinished();
}

// Removes what a killed writer has left. A second stop signal kills it.
void PrivateRun::remove_unfinished() const {
  if (options_.checkpoint.empty()) return;
  for (const fs::path& place : {fs::path(options_.checkpoint), elsewhere()}) {
    auto leftovers = store::find_leftovers(place.parent_path(), store::process_exists);
    if (!leftovers) continue;
    std::erase_if(*leftovers, [&](const fs::path& path) {
      return !path.filename().string().starts_with("." + place.filename().string() + ".");
    });
    store::remove_leftovers(store::posix_file_system(), *leftovers);
  }
}

}  // namespace es::actors::esctl
