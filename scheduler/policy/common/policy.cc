#include "scheduler/policy/common/policy.h"

#include <algorithm>
#include <map>

#include "scheduler/model/device_sets.h"

namespace es::scheduler {
namespace {

struct JobChange {
  DeviceSet granted;
  DeviceSet shrunk;
};

Status broken(const JobView& job, const std::string& rule) {
  return failure("policy: job " + job.id + ": " + rule);
}

Status check_pinned(const JobView& job, const JobChange& change) {
  const DeviceSet missing = beyond(*job.pinned, job.held);
  if (change.granted == missing && change.shrunk.empty()) return {};
  return broken(job, "pinned to \"" + job.pinned->text() + "\", holds \"" + job.held.text() +
                         "\", granted \"" + change.granted.text() + "\", shrunk by \"" +
                         change.shrunk.text() + '"');
}

bool is_proposed(const JobView& job, const DeviceCount& granted) {
  return std::any_of(job.proposals.begin(), job.proposals.end(), [&](const Proposal& p) {
    // A part of a proposed count may be granted too.
    return p.type == granted.type && p.count >= granted.count;
  });
}

// Checks what the job holds after a grant.
Status check_bounds(const JobView& job, const DeviceSet& granted, const DeviceSet& after) {
  for (const DeviceCount& c : granted.counts)
    if (std::find(job.types.begin(), job.types.end(), c.type) == job.types.end())
      return broken(job, "granted type " + c.type.name + ", which it may not use");
  if (after.total() > job.max_devices) return broken(job, "granted more than its maximum");
  if (after.total() < job.min_devices) return broken(job, "granted less than its minimum");
  // Only tested after a grant. A mix that the job held before is tolerated until then.
  if (!job.mix_types && after.counts.size() > 1) return broken(job, "granted a mix of types");
  return {};
}

Status check_price(const JobView& job, const DeviceSet& granted, const Prices& prices) {
  if (granted.empty()) return {};
  if (job.budget_left <= 0) return broken(job, "granted devices, and its budget is used up");
  constexpr double kRounding = 1e-9;
  if (prices.of(granted) <= job.price_limit * (1 + kRounding)) return {};
  return broken(job, "granted \"" + granted.text() + "\", which costs more than its limit");
}

Status check_grant(const JobView& job, const JobChange& change) {
  const std::uint32_t held = job.held.total();
  const DeviceSet kept = beyond(job.held, change.shrunk);
  const DeviceSet after = sum(kept, change.granted);
  ES_RETURN_IF_ERROR(check_bounds(job, change.granted, after));
  if (refusal_of(job.refusals, after) != nullptr)
    return broken(job, "left with \"" + after.text() + "\", which it refuses");
  if (held > 0 && held < job.min_devices) {
    if (after.total() == job.min_devices) return {};
    return broken(job, "granted \"" + change.granted.text() +
                           "\", which does not make its minimum of " +
                           std::to_string(job.min_devices));
  }
  if (held > 0 && !job.settled) return broken(job, "granted more before it has settled");
  if (kept.empty()) return {};  // it starts or migrates
  for (const DeviceCount& c : change.granted.counts)
    if (!is_proposed(job, c))
      return broken(job, "granted \"" + change.granted.text() + "\", which it did not propose");
  return {};
}

Status check_elastic(const JobView& job, const JobChange& change) {
  if (!job.held.contains(change.shrunk)) return broken(job, "shrunk by more than it holds");
  for (const DeviceCount& c : change.granted.counts)
    if (change.shrunk.count_of(c.type) > 0)
      return broken(job, "granted and shrunk by type " + c.type.name + " at once");
  if (!change.granted.empty()) return check_grant(job, change);
  const std::uint32_t left = job.held.total() - change.shrunk.total();
  if (left >= job.min_devices || (left == 0 && job.may_suspend)) return {};
  return broken(job, "shrunk below its minimum");
}

using ChangesBySlot = std::map<std::size_t, JobChange>;

// Enters a list of changes. Every entry must be new, must not be empty, and must belong to a job.
Status enter(const ClusterView& view, const std::vector<Change>& changes,
             DeviceSet JobChange::*part, ChangesBySlot& by_slot) {
  for (const Change& change : changes) {
    if (change.slot >= view.jobs.size() || view.jobs[change.slot].id.empty())
      return failure("policy: slot " + std::to_string(change.slot) + " has no job");
    DeviceSet& devices = by_slot[change.slot].*part;
    if (change.devices.empty() || !devices.empty())
      return broken(view.jobs[change.slot], "changed twice or by nothing");
    devices = change.devices;
  }
  return {};
}

// Calls visit(queue) for the queue of the job and for all queues above it.
template <class Visit>
void visit_queues_of(const ClusterView& view, const JobView& job, const Visit& visit) {
  const Queue* queue = find_queue(view.queues, job.queue);
  for (; queue != nullptr; queue = find_queue(view.queues, queue->parent)) visit(*queue);
}

// Checks the limits of the queues of jobs that are granted something.
Status check_queue_limits(const ClusterView& view, const ChangesBySlot& by_slot) {
  const bool has_limits = std::any_of(view.queues.begin(), view.queues.end(),
                                      [](const Queue& queue) { return !queue.borrow.empty(); });
  if (!has_limits) return {};
  std::map<const Queue*, DeviceSet> after;
  for (std::size_t slot = 0; slot < view.jobs.size(); ++slot) {
    const JobView& job = view.jobs[slot];
    if (job.id.empty()) continue;
    const auto change = by_slot.find(slot);
    const DeviceSet has = change == by_slot.end() ? job.held
                                                  : sum(beyond(job.held, change->second.shrunk),
                                                        change->second.granted);
    if (!has.empty())
      visit_queues_of(view, job,
                      [&](const Queue& queue) { after[&queue] = sum(after[&queue], has); });
  }
  Status status;
  for (const auto& at : by_slot) {
    const JobView& job = view.jobs[at.first];
    const auto& change = at.second;
    visit_queues_of(view, job, [&](const Queue& queue) {
      for (const DeviceCount& c : change.granted.counts) {
        const auto borrow = queue.borrow.find(c.type);
        const std::uint32_t has = after[&queue].count_of(c.type);
        if (borrow == queue.borrow.end() ||
            has <= std::uint64_t{queue.guarantee.count_of(c.type)} + borrow->second)
          continue;
        status = broken(job, "granted \"" + change.granted.text() + "\", so that queue " +
                                 queue.name + " has " + std::to_string(has) + " of " + c.type.name +
                                 ", beyond its limit");
      }
    });
  }
  return status;
}

}  // namespace

double remaining_steps_at(const JobView& job, Seconds now) {
  const Work& work = job.work;
  // Negative during a pause; the job makes no progress then.
  const Seconds ran = now - std::max(work.as_of, work.paused_until);
  return std::max(0.0, work.remaining_steps - std::max(0.0, ran.count()) * work.steps_per_s);
}

double attained_device_s_at(const JobView& job, Seconds now) {
  const Seconds held_for = std::max(Seconds(0), now - job.work.as_of);
  return job.work.attained_device_s + job.held.total() * held_for.count();
}

void advance_work(JobView& job, Seconds now) {
  Work& work = job.work;
  const double held_s = std::max(Seconds(0), now - work.as_of).count();
  work.remaining_steps = remaining_steps_at(job, now);
  work.attained_device_s = attained_device_s_at(job, now);
  for (const DeviceCount& c : job.held.counts) {
    auto at = work.attained_by_type.begin();
    while (at != work.attained_by_type.end() && at->type < c.type) ++at;
    if (at == work.attained_by_type.end() || at->type != c.type)
      at = work.attained_by_type.insert(at, {c.type, 0});
    at->device_s += c.count * held_s;
  }
  work.as_of = now;
}

Status check_decisions(const ClusterView& view, const Decisions& decisions) {
  if (!(decisions.again_at > view.now))
    return failure("policy: wants to be asked again at a time that is not in the future");
  ChangesBySlot by_slot;
  ES_RETURN_IF_ERROR(enter(view, decisions.grants, &JobChange::granted, by_slot));
  ES_RETURN_IF_ERROR(enter(view, decisions.shrinks, &JobChange::shrunk, by_slot));
  DeviceSet granted;
  for (const auto& [slot, change] : by_slot) {
    const JobView& job = view.jobs[slot];
    granted = sum(granted, change.granted);
    ES_RETURN_IF_ERROR(job.pinned ? check_pinned(job, change) : check_elastic(job, change));
    ES_RETURN_IF_ERROR(check_price(job, change.granted, view.prices));
  }
  if (!view.free.contains(granted))
    return failure("policy: granted \"" + granted.text() + "\" of free \"" + view.free.text() +
                   '"');
  return check_queue_limits(view, by_slot);
}

}  // namespace es::scheduler
