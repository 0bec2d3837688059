#include "actors/head/cluster_scheduler/core/queue_shares.h"

#include <algorithm>
#include <cmath>

namespace es::actors {

using scheduler::Seconds;

QueueShares::QueueShares(const cluster::Limits& limits) : limits_(limits) {
  if (limits_.share_half_life_s > 0 && !limits_.queues.empty())
    shares_.emplace(limits_.queues, Seconds(limits_.share_half_life_s));
}

void QueueShares::restore(const cluster::UsageRestored& event, double now_s) {
  if (!shares_) return;
  shares_->advance(Seconds(now_s));
  const double half_lives = std::max(0.0, event.age_s) / limits_.share_half_life_s;
  shares_->charge(event.queue, event.device_seconds * std::exp2(-half_lives));
  shares_->rank();
}

void QueueShares::charge(const scheduler::JobView& view, double& charged_device_s, double now_s) {
  if (!shares_ || view.id.empty()) return;
  const double attained = scheduler::attained_device_s_at(view, Seconds(now_s));
  const double used = attained - charged_device_s;
  if (used <= 0) return;
  shares_->advance(Seconds(now_s));
  shares_->charge(view.queue, used);
  charged_device_s = attained;
  usage_changed_ = true;
}

bool QueueShares::is_due(double now_s) {
  if (!shares_ || now_s < shared_s_ + shares_->period().count()) return false;
  shared_s_ = now_s;
  return true;
}

bool QueueShares::rank(double now_s) {
  shares_->advance(Seconds(now_s));
  return shares_->rank();
}

double QueueShares::next_s(double now_s) const {
  if (!shares_) return scheduler::kNever.count();
  return std::max(now_s, shared_s_) + shares_->period().count();
}

// Only a queue with a sibling of a lower tier keeps its weight, because it takes devices before
// that one.
void QueueShares::clear_weights(std::vector<scheduler::Queue>& queues) const {
  if (!shares_) return;
  for (scheduler::Queue& queue : queues) {
    const bool precedes = std::any_of(
        limits_.queues.begin(), limits_.queues.end(), [&](const scheduler::Queue& other) {
          return other.parent == queue.parent && other.tier < queue.tier;
        });
    if (!precedes) queue.weight = 0;
  }
}

std::optional<std::vector<std::pair<std::string, double>>> QueueShares::take_usage() {
  if (!shares_ || !std::exchange(usage_changed_, false)) return {};
  std::vector<std::pair<std::string, double>> usage;
  for (const scheduler::Queue& queue : limits_.queues)
    if (scheduler::is_leaf(limits_.queues, queue.name))
      usage.emplace_back(queue.name, shares_->usage(queue.name));
  return usage;
}

std::optional<QueueShares::View> QueueShares::of(const std::string& queue) const {
  if (!shares_) return {};
  return View{shares_->usage(queue), shares_->level(queue)};
}

}  // namespace es::actors
