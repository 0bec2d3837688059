#include "tests/scheduler/policy/random_views.h"

#include <algorithm>
#include <numeric>

#include "scheduler/model/device_sets.h"

namespace es::test {

using scheduler::beyond;
using scheduler::ClusterView;
using scheduler::JobView;
using scheduler::Seconds;
using scheduler::sum;

DeviceSet RandomViews::some(const DeviceSet& of) {
  DeviceSet part;
  for (const DeviceCount& c : of.counts) part.add(c.type, draw(0, c.count));
  return part;
}

void RandomViews::propose(JobView& job, const DeviceSet& total) {
  job.proposals.clear();
  const std::uint32_t held = job.held.total();
  if (held >= job.max_devices || one_in(5)) return;
  for (const DeviceType& type : job.types)
    if (job.mix_types || held == 0 || job.held.count_of(type) > 0)
      if (total.count_of(type) > 0)
        job.proposals.push_back({type, draw(1, job.max_devices - held), draw(8, 40) / 10.0});
}

// Devices that the job holds may be refused too, and refusals end.
void RandomViews::refuse(JobView& job, const DeviceSet& total) {
  job.refusals.clear();
  for (std::uint32_t n = one_in(2) ? draw(1, 3) : 0; n > 0; --n) {
    scheduler::Refusal refusal{some(total), {}, {}};
    for (const DeviceType& type : job.types)
      if (one_in(2)) refusal.types.push_back(type);
    while (refusal.held.total() > job.max_devices)
      refusal.held.remove(refusal.held.counts.front().type, 1);
    if (refusal.held.total() >= job.min_devices && !refusal.types.empty())
      job.refusals.push_back(std::move(refusal));
  }
}

JobView RandomViews::job(const ClusterView& view) {
  JobView job;
  job.number = jobs_++;
  job.id = "j" + std::to_string(job.number);
  job.submitted = view.now - Seconds(one_in(2) ? draw(0, 1000) : 0);
  job.queue = one_in(2) ? "a" : one_in(2) ? "b" : "";
  if (!view.queues.empty() && one_in(2))
    job.queue = view.queues[draw(0, static_cast<std::uint32_t>(view.queues.size()) - 1)].name;
  if (!is_leaf(view.queues, job.queue)) job.queue = "a";
  job.priority = one_in(6) ? 1 : 0;
  if (one_in(6)) job.deadline = view.now + Seconds(draw(0, 3000)) - Seconds(200);
  job.max_p = draw(1, 12);
  job.max_devices = draw(1, job.max_p);
  job.min_devices = one_in(3) ? draw(1, job.max_devices) : 1;
  job.mix_types = one_in(2);
  job.may_suspend = !one_in(6);
  for (const DeviceCount& c : view.total.counts)
    if (!one_in(4)) job.types.push_back(c.type);
  for (const DeviceType& type : job.types)
    if (!one_in(8)) job.capabilities[type] = draw(5, 40) / 10.0;
  if (one_in(4)) job.sync.set({draw(2, 12), draw(1, 40) / 10.0});
  if (one_in(8)) job.sync.set({draw(1, 12), draw(1, 40) / 10.0});
  if (job.number % 3 == 0) job.expected_sync_s = 0.2;
  if (one_in(3)) job.suspend_pause = Seconds(draw(0, 10));
  if (one_in(5)) job.pinned = one_in(3) ? DeviceSet{} : some(view.total);
  job.work.total_steps = one_in(8) ? scheduler::kUnknownLength : draw(1, 10000);
  job.work.remaining_steps = job.work.total_steps;
  job.work.as_of = view.now;
  job.job_seconds_at_submit = view.job_seconds - (view.now - job.submitted).count() * draw(1, 3);
  propose(job, view.total);
  refuse(job, view.total);
  return job;
}

std::vector<scheduler::Queue> RandomViews::queues(const DeviceSet& total) {
  std::vector<scheduler::Queue> queues{{"a", some(total)}};
  DeviceSet rest = beyond(total, queues.front().guarantee);
  for (std::uint32_t i = draw(1, 7); i > 0; --i) {
    scheduler::Queue queue{"q" + std::to_string(i), {}};
    // The queue "a" always is a leaf, because jobs may be in it.
    if (queues.size() > 1 && one_in(2))
      queue.parent = queues[draw(1, static_cast<std::uint32_t>(queues.size()) - 1)].name;
    if (queue.parent.empty()) {
      queue.guarantee = some(rest);
      rest = beyond(rest, queue.guarantee);
    }
    queues.push_back(std::move(queue));
  }
  // A part of what the parent has and its other children do not have.
  for (scheduler::Queue& queue : queues) {
    if (queue.parent.empty()) continue;
    DeviceSet guarantee = scheduler::find_queue(queues, queue.parent)->guarantee;
    for (const scheduler::Queue& other : queues)
      if (other.parent == queue.parent) guarantee = beyond(guarantee, other.guarantee);
    queue.guarantee = some(guarantee);
  }
  for (scheduler::Queue& queue : queues) {
    queue.weight = draw(0, 4);
    for (const DeviceCount& c : total.counts)
      if (one_in(3)) queue.borrow[c.type] = draw(0, 4);
  }
  return *scheduler::completed_queues(std::move(queues));
}

ClusterView RandomViews::view(std::uint32_t jobs_max) {
  ClusterView view;
  view.now = Seconds(2000);
  view.job_seconds = 9000;
  for (const char* type : {"a", "b", "c"}) view.total.add({type}, draw(0, 12));
  view.free = view.total;
  // Devices that are out of use.
  if (one_in(4)) view.total.add({"b"}, draw(1, 4));
  if (one_in(2)) view.queues = {{"a", some(view.total)}, {"b", {}}};
  if (one_in(2) && !view.queues.empty())
    view.queues[1].guarantee = some(beyond(view.total, view.queues[0].guarantee));
  if (!view.queues.empty() && one_in(2)) view.queues = queues(view.total);
  for (std::uint32_t j = draw(0, jobs_max); j > 0; --j)
    view.jobs.push_back(one_in(8) ? JobView() : job(view));
  return view;
}

void RandomViews::advance_time(ClusterView& view) {
  const double step_s = one_in(3) ? 0 : draw(1, 200);
  for (const JobView& job : view.jobs)
    if (!job.id.empty()) view.job_seconds += step_s;
  view.now += Seconds(step_s);
  view.free = sum(view.free, view.returning);
  view.returning = {};
}

void RandomViews::adopt_devices(const ClusterView& view, JobView& job) {
  advance_work(job, view.now);
  job.changed = view.now;
  if (job.started) ++job.work.changes;
  job.work.steps_per_s = job.held.total();
  job.work.paused_until = view.now + Seconds(draw(0, 20));
  job.started = job.started || !job.held.empty();
  job.settled = !one_in(4);
  propose(job, view.total);
  if (!job.settled) job.proposals.clear();
}

void RandomViews::carry_out(ClusterView& view, const scheduler::Decisions& decisions,
                            std::vector<std::size_t>& changed) {
  for (const scheduler::Change& c : decisions.shrinks) {
    view.jobs[c.slot].held = beyond(view.jobs[c.slot].held, c.devices);
    DeviceSet& to = one_in(2) ? view.free : view.returning;
    to = sum(to, c.devices);
    adopt_devices(view, view.jobs[c.slot]);
    changed.push_back(c.slot);
  }
  for (const scheduler::Change& c : decisions.grants) {
    view.jobs[c.slot].held = sum(view.jobs[c.slot].held, c.devices);
    view.free = beyond(view.free, c.devices);
    adopt_devices(view, view.jobs[c.slot]);
    changed.push_back(c.slot);
  }
}

void RandomViews::end_job(ClusterView& view, JobView& job) {
  view.free = sum(view.free, job.held);
  job = {};
}

void RandomViews::change_demand(const ClusterView& view, JobView& job) {
  if (one_in(2)) job.pinned = one_in(2) ? std::optional(some(view.total)) : std::nullopt;
  if (one_in(2)) refuse(job, view.total);
  job.settled = true;
  propose(job, view.total);
}

void RandomViews::lose_node(ClusterView& view, JobView& job) {
  const DeviceSet lost = some(job.held);
  job.held = beyond(job.held, lost);
  view.total = beyond(view.total, lost);
  job.proposals.clear();
}

bool RandomViews::change_slot(ClusterView& view, std::size_t slot) {
  JobView& job = view.jobs[slot];
  if (job.id.empty()) {
    if (!one_in(3)) return false;
    job = this->job(view);
  } else if (one_in(10)) {
    end_job(view, job);
  } else if (one_in(10)) {
    change_demand(view, job);
  } else if (one_in(12) && !job.held.empty()) {
    lose_node(view, job);
  } else {
    return false;
  }
  return true;
}

void RandomViews::advance(ClusterView& view, const scheduler::Decisions& decisions) {
  std::vector<std::size_t> changed;
  advance_time(view);
  carry_out(view, decisions, changed);
  for (std::size_t slot = 0; slot < view.jobs.size(); ++slot)
    if (change_slot(view, slot)) changed.push_back(slot);
  if (one_in(4)) {
    view.jobs.push_back(job(view));
    changed.push_back(view.jobs.size() - 1);
  }
  view.changed = changed;
}

ClusterView RandomViews::shuffled(const ClusterView& view, std::vector<std::size_t>& new_slot_of) {
  new_slot_of.resize(view.jobs.size());
  std::iota(new_slot_of.begin(), new_slot_of.end(), std::size_t{0});
  std::shuffle(new_slot_of.begin(), new_slot_of.end(), random_);
  ClusterView other = view;
  other.changed.reset();
  for (std::size_t slot = 0; slot < view.jobs.size(); ++slot)
    other.jobs[new_slot_of[slot]] = view.jobs[slot];
  return other;
}

}  // namespace es::test
