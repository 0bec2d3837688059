// ClusterCore: decayed fair share (scheduler/policy/common/fair_share.h). Once in a period every
// job is charged to its queue for the devices that it has held, and the queues are ordered anew.
#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/head/cluster_scheduler/core/cluster_core.h"

namespace es::actors {

using scheduler::JobView;
using scheduler::Seconds;

void ClusterCore::on_usage_restored(const cluster::UsageRestored& event) {
  if (!shares_) return;
  shares_->advance(Seconds(now_s_));
  const double half_lives = std::max(0.0, event.age_s) / limits_.share_half_life_s;
  shares_->charge(event.queue, event.device_seconds * std::exp2(-half_lives));
  shares_->rank();
}

void ClusterCore::charge(Job& job) {
  if (!shares_) return;
  const JobView& view = view_.jobs[job.slot];
  if (view.id.empty()) return;
  const double attained = scheduler::attained_device_s_at(view, Seconds(now_s_));
  const double used = attained - job.charged_device_s;
  if (used <= 0) return;
  shares_->advance(Seconds(now_s_));
  shares_->charge(view.queue, used);
  job.charged_device_s = attained;
  usage_changed_ = true;
}

void ClusterCore::share_out() {
  if (!shares_ || now_s_ < shared_s_ + shares_->period().count()) return;
  shared_s_ = now_s_;
  for (auto& [number, job] : jobs_) charge(job);
  shares_->advance(Seconds(now_s_));
  if (!shares_->rank()) return;
  for (auto& [number, job] : jobs_) {
    JobView& view = view_.jobs[job.slot];
    if (view.id.empty() || view.share_level == shares_->level(view.queue)) continue;
    view.share_level = shares_->level(view.queue);
    touch(job);
  }
}

// A queue that uses nothing comes forward without an event, so the policy is asked again while a
// job holds devices or waits for them.
double ClusterCore::next_share_s() const {
  if (!shares_ || jobs_.empty()) return scheduler::kNever.count();
  return std::max(now_s_, shared_s_) + shares_->period().count();
}

std::optional<std::vector<std::pair<std::string, double>>> ClusterCore::take_usage() {
  if (!shares_ || !std::exchange(usage_changed_, false)) return {};
  std::vector<std::pair<std::string, double>> usage;
  for (const scheduler::Queue& queue : limits_.queues)
    if (scheduler::is_leaf(limits_.queues, queue.name))
      usage.emplace_back(queue.name, shares_->usage(queue.name));
  return usage;
}

std::optional<ClusterCore::ShareView> ClusterCore::share_of(const std::string& queue) const {
  if (!shares_) return {};
  return ShareView{shares_->usage(queue), shares_->level(queue)};
}

}  // namespace es::actors
