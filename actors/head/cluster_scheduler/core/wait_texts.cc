#include "actors/head/cluster_scheduler/core/wait_texts.h"

#include <cmath>

#include "scheduler/policy/common/waits.h"

namespace es::actors {
namespace {

using scheduler::ClusterView;
using scheduler::JobView;
using scheduler::Wait;
using scheduler::WaitingJob;
using scheduler::WaitRule;

std::string in_seconds_text(double seconds) {
  return seconds < 1 ? "at once" : "in about " + std::to_string(std::lround(seconds)) + " s";
}

// `after` names the job that it awaits.
std::string text_of(const Wait& wait, const std::string& after) {
  switch (wait.rule) {
    case WaitRule::kReturning:
      return "devices that other jobs are giving back for it; it begins when it has them";
    case WaitRule::kSettling:
      return "the end of its last change of devices";
    case WaitRule::kPauses:
      return "jobs that start or change their devices; what is free does not suffice for it now. "
             "The head decides about it when the first of them is done";
    case WaitRule::kEnd:
      return "the devices of " + after + ", which is about to end";
    case WaitRule::kScarce:
      return "a device of another type: jobs that can use nothing else need the free ones. It "
             "begins when one of another type is free, or these jobs need less";
    case WaitRule::kSlowType:
      return "a device of a faster type: it stays on the type on which it begins, and would end "
             "too late on the free ones. It begins when one of a faster type is free, or takes one "
             "when it has waited too long";
    case WaitRule::kOrder:
      return after + ", which comes first: the policy lets no job overtake it";
    case WaitRule::kKept:
      return after +
             ", which comes first: the free devices are kept for it until it has the rest of what "
             "it shall have";
    case WaitRule::kNoSpeed:
      return "an estimate of its speed on the free devices";
  }
  return {};
}

std::string when_of(const ClusterView& view, const Wait& wait) {
  if (wait.until >= scheduler::kNever) return {};
  return ", expected " + in_seconds_text((wait.until - view.now).count());
}

}  // namespace

std::map<JobId, WaitText> policy_waits(const ClusterView& view, const scheduler::Decisions& decided,
                                       scheduler::StartsWith starts_with,
                                       const std::function<bool(const JobId&)>& shows) {
  std::map<JobId, WaitText> texts;
  for (const WaitingJob& job : scheduler::waiting_beside_free(view, decided, starts_with)) {
    const JobId after = job.why && job.why->after ? view.jobs[*job.why->after].id : JobId();
    const bool named = !after.empty() && shows(after);
    texts[view.jobs[job.slot].id] =
        job.why ? WaitText{text_of(*job.why, named ? "job " + after : "another job"),
                           when_of(view, *job.why)}
                : WaitText{"nothing that the policy can name, which is an error", ""};
  }
  return texts;
}

WaitText limits_text(const JobView& view, const JobLimits& limits, double now_s) {
  if (view.price_limit < scheduler::kNever.count()) {
    std::string types;
    for (const DeviceType& type : view.types) types += (types.empty() ? "" : " or ") + type.name;
    return {"devices of type " + types + ": its deadline or budget allows it only the cheapest",
            limits.price_again_s == scheduler::kNever.count()
                ? ""
                : " that are in time, and others " + in_seconds_text(limits.price_again_s - now_s)};
  }
  if (limits.by_faults)
    return {"devices on which it has not failed, on nodes that reach each other",
            "; the next pause of a node ends " + in_seconds_text(limits.pause_end_s - now_s)};
  if (limits.by_memory) return {"devices with enough memory for its workers", ""};
  if (view.pinned) return {"the devices that it still gives back", ""};
  return {"room in its queue: another job of it has to leave devices first", ""};
}

}  // namespace es::actors
