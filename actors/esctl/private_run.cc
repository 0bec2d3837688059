#include "actors/esctl/private_run.h"

#include "actors/config/default_devices.h"
#include "actors/esctl/progress.h"

namespace es::actors::esctl {

Status PrivateRun::start(const std::filesystem::path& easyscaled) {
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

Result<JobView> PrivateRun::train(const JobSpec& spec, const StartPoint& start) {
  Result<JobView> end = submit_and_follow(spec, start);
  if (!end && stop_signal() != 0 && !job_.empty()) end = stop_early();
  shut_down();
  if (end || end.error().kind != ErrorKind::kFailure || stop_signal() != 0) return end;
  const std::string log = daemon_->log_tail();
  return failure(end.error().message + (log.empty() ? "" : "; its log ends with\n" + log));
}

Result<JobView> PrivateRun::submit_and_follow(const JobSpec& spec, const StartPoint& start) {
  Result<JobId> job = submit_job(*client_, spec, start);
  if (!job) return job.error();
  job_ = *std::move(job);
  Progress progress(console_, options_.quiet);
  Result<JobView> end = follow_job(*client_, job_, progress);
  if (end && options_.at_end) ES_RETURN_IF_ERROR(options_.at_end(*client_, job_));
  return end;
}

Result<JobView> PrivateRun::stop_early() {
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

void PrivateRun::shut_down() {
  signals_max_ = 1;
  // Whether it was done shows in the daemon's end.
  (void)client_->ask<wire::Done, wire::Shutdown>({}, [](wire::Shutdown::Builder) {});
  client_.reset();
  daemon_->stop(signals_max_);
}

}  // namespace es::actors::esctl
