#include "actors/esctl/client/live_tracking.h"

#include "actors/esctl/client/ledger_source.h"
#include "actors/esctl/client/requests.h"

namespace es::actors::esctl {

constexpr std::chrono::seconds kUpdateInterval{1};

void LiveTracking::see(const JobView& view) {
  const auto now = std::chrono::steady_clock::now();
  if (now - updated_ < kUpdateInterval) return;
  updated_ = now;
  const Status done = update(view);
  if (!done.ok() && !failing_)
    console_.err << "esctl: warning: " << done.error().message << "; it will be tried again"
                 << std::endl;
  failing_ = !done.ok();
}

Status LiveTracking::finish(const JobView& view) {
  ES_RETURN_IF_ERROR(update(view));
  return is_over(view.state) ? tracking_->end(view.state) : Status();
}

Status LiveTracking::update(const JobView& view) {
  if (!tracking_) {
    const auto details = describe_job(*reader_, view.id);
    if (!details) return details.error();
    const auto job = tracked_job(details->job, details->spec_toml);
    if (!job) return job.error();
    auto begun = JobTracking::begin(options_, *job);
    if (!begun) return begun.error();
    tracking_ = *std::move(begun);
  }
  const auto lines = read_ledger_lines(*reader_, view.id, tracking_->next());
  return lines ? tracking_->add(*lines, view.evaluations) : lines.error();
}

}  // namespace es::actors::esctl
