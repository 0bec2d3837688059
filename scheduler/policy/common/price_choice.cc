#include "scheduler/policy/common/price_choice.h"

#include <algorithm>
#include <array>

#include "scheduler/policy/common/speed.h"

namespace es::scheduler {
namespace {

// A choice is not made anew sooner than this.
constexpr Seconds kShortest{5};

// A set of devices of one type.
struct Candidate {
  const DeviceType* type = nullptr;
  std::uint32_t count = 0;
  double steps_s = 0;  // seconds of its remaining steps
  double pause_s = 0;  // without progress before them
  double cost = 0;
  bool in_time = false;
  double seconds() const { return pause_s + steps_s; }
};

using Candidates = std::vector<Candidate>;

double pause_s(const JobView& job, const DeviceType& type, std::uint32_t count, Seconds now) {
  if (job.held.empty()) return (job.started ? job.suspend_pause : job.start_pause).count();
  if (job.held.total() == count && job.held.count_of(type) == count)
    return std::max(0.0, (job.work.paused_until - now).count());
  return job.rescale_pause.count();
}

// Seconds that are left of the time until the deadline.
double slack_s(const Candidate& c, const JobView& job, Seconds now) {
  return (job.deadline - now).count() - c.pause_s - (1 + kLateness) * c.steps_s;
}

Candidates candidates_of(const JobView& job, const DeviceSet& total, const Prices& prices,
                         Seconds now) {
  Candidates candidates;
  const double remaining = remaining_steps_at(job, now);
  for (const DeviceType& type : job.types) {
    const auto known = job.capabilities.find(type);
    if (known == job.capabilities.end() || known->second <= 0) continue;
    const std::uint32_t most = std::min(job.max_devices, total.count_of(type));
    double best_speed = 0;
    for (std::uint32_t count = job.min_devices; count <= most; ++count) {
      const double speed =
          mixed_speed(job.max_p, std::array{count}, std::array{known->second}, job.sync);
      if (speed <= best_speed) continue;
      best_speed = speed;
      Candidate c{&type, count, remaining / speed, pause_s(job, type, count, now)};
      c.cost = count * prices.of(type) * c.seconds() / 3600;
      c.in_time = slack_s(c, job, now) >= 0;
      candidates.push_back(c);
    }
  }
  return candidates;
}

void keep_nearly_cheapest(Candidates& sets) {
  const auto cheaper = [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; };
  const double most = std::ranges::min_element(sets, cheaper)->cost * (1 + kNearlyCheapest);
  std::erase_if(sets, [&](const Candidate& c) { return c.cost > most; });
}

// The sets to which the job is limited; empty: it is not limited.
Candidates limited_to(const Candidates& all, double budget_left) {
  Candidates affordable = all;
  std::erase_if(affordable, [&](const Candidate& c) { return c.cost > budget_left; });
  Candidates chosen = affordable;
  std::erase_if(chosen, [](const Candidate& c) { return !c.in_time; });
  if (chosen.empty() && !affordable.empty())
    return affordable.size() == all.size() ? Candidates() : affordable;
  if (chosen.empty()) chosen = all;
  keep_nearly_cheapest(chosen);
  return chosen;
}

}  // namespace

std::optional<PriceChoice> price_choice(const JobView& job, const DeviceSet& total,
                                        const Prices& prices, Seconds now) {
  const bool has_deadline = job.deadline < kNever;
  if (prices.empty() || (!has_deadline && job.budget_left == kNever.count())) return {};
  if (job.work.remaining_steps == kUnknownLength) return {};
  Candidates all = candidates_of(job, total, prices, now);
  if (all.empty()) return {};  // no speed is known, or there are no devices
  // Without a deadline no set is better than another one by being in time.
  if (!has_deadline)
    for (Candidate& c : all) c.in_time = false;
  const Candidates chosen = limited_to(all, job.budget_left);
  if (chosen.empty()) return {};
  const Candidate& first = *std::ranges::min_element(chosen, {}, &Candidate::seconds);
  PriceChoice choice{.types = {}, .max_devices = first.count};
  for (const Candidate& c : chosen)
    if (c.count == first.count) choice.types.push_back(*c.type);
  if (first.in_time) choice.again_at = now + std::max(kShortest, Seconds(slack_s(first, job, now)));
  return choice;
}

Seconds limit_by_price(JobView& job, const DeviceSet& total, const Prices& prices, Seconds now) {
  job.price_limit = kNever.count();
  if (job.budget_left <= 0) job.pinned = DeviceSet();
  if (job.pinned) return kNever;
  const auto choice = price_choice(job, total, prices, now);
  if (!choice) return kNever;
  job.types = choice->types;
  job.max_devices = choice->max_devices;
  double dearest = 0;
  for (const DeviceType& type : job.types) dearest = std::max(dearest, prices.of(type));
  job.price_limit = dearest * job.max_devices;
  const auto may_use = [&](const DeviceType& type) {
    return std::ranges::find(job.types, type) != job.types.end();
  };
  if (!may_use(job.gang_type)) job.gang_type = {};
  std::erase_if(job.proposals, [&](const Proposal& proposal) {
    return !may_use(proposal.type) || job.held.total() + proposal.count > job.max_devices;
  });
  return choice->again_at;
}

}  // namespace es::scheduler
