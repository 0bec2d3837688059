#include "scheduler/policy/registry.h"

#include <algorithm>
#include <functional>

#include "proto/base/number_text.h"
#include "scheduler/policy/elastic_srtf/elastic_srtf.h"
#include "scheduler/policy/gang/gang.h"
#include "scheduler/policy/greedy/greedy.h"
#include "scheduler/policy/max_min_fair.h"
#include "scheduler/policy/rivals/gavel.h"
#include "scheduler/policy/rivals/sia.h"
#include "scheduler/policy/rivals/themis.h"
#include "scheduler/policy/rivals/tiresias.h"

namespace es::scheduler {
namespace {

using Make = std::unique_ptr<Policy> (*)(const PolicyOptions&);
using Order = GangRules::Order;
using Blocking = GangRules::Blocking;

constexpr bool kHoldsQueues = true;
constexpr bool kHasFairness = true;
constexpr bool kKeepsRunning = true;

struct Entry {
  PolicyInfo info;
  Make make;
};

template <GavelPolicy::Objective objective>
std::unique_ptr<Policy> make_gavel(const PolicyOptions&) {
  return std::make_unique<GavelPolicy>(objective);
}

template <class P>
std::unique_ptr<Policy> make_plain(const PolicyOptions&) {
  return std::make_unique<P>();
}

template <Order order, Blocking blocking, bool preempts>
std::unique_ptr<Policy> make_gang(const PolicyOptions&) {
  return std::make_unique<GangPolicy>(GangRules{order, blocking, preempts});
}

constexpr Entry kEntries[] = {
    {{"elastic-srtf", "shortest remaining time first, elastic, with critical jobs and fairness",
      kHoldsQueues, kHasFairness},
     [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
       return std::make_unique<ElasticSrtf>(o.fairness);
     }},
    {{"easyscale",
      "the policy of the paper: minima in submit order, then extra devices by gain per device"},
     [](const PolicyOptions& o) -> std::unique_ptr<Policy> {
       return std::make_unique<GreedyPolicy>(o.homogeneous);
     }},
    {{"fifo-serial", "one job at a time, all its devices", kHoldsQueues, false, kKeepsRunning},
     make_gang<Order::kSubmitted, Blocking::kSerial, false>},
    {{"fifo-gang",
      "in submit order, all devices or none; the first job that waits blocks the others",
      kHoldsQueues, false, kKeepsRunning},
     make_gang<Order::kSubmitted, Blocking::kHeadOfLine, false>},
    {{"fifo-backfill", "in submit order, all devices or none; jobs that fit run", kHoldsQueues,
      false, kKeepsRunning},
     make_gang<Order::kSubmitted, Blocking::kNone, false>},
    {{"easy-backfill",
      "EASY: in submit order, all devices or none; jobs that do not delay the first that waits run",
      kHoldsQueues, false, kKeepsRunning},
     make_gang<Order::kSubmitted, Blocking::kReservation, false>},
    {{"srtf", "shortest remaining time first, all devices or none, preemptive", kHoldsQueues},
     make_gang<Order::kRemainingTime, Blocking::kNone, true>},
    {{"las", "least attained service first (Tiresias), all devices or none, preemptive",
      kHoldsQueues},
     make_gang<Order::kAttainedService, Blocking::kNone, true>},
    {{"max-min-fair", "devices in turn to the job with the least of its 1/n share (Gavel)"},
     make_plain<MaxMinFair>},
    {{"gavel-las", "Gavel: least attained service by a linear program, in rounds"},
     make_gavel<GavelPolicy::Objective::kLeastAttained>},
    {{"gavel-ftf", "Gavel: finish-time fairness by linear programs, in rounds"},
     make_gavel<GavelPolicy::Objective::kFinishTime>},
    {{"sia", "Sia and Pollux: one configuration for each job by an integer program, in rounds"},
     make_plain<SiaPolicy>},
    {{"tiresias", "Tiresias: discretised least attained service with promotion"},
     make_plain<TiresiasPolicy>},
    {{"themis", "Themis: auctions among the jobs with the worst finish-time fairness"},
     make_plain<ThemisPolicy>},
};

}  // namespace

std::vector<PolicyInfo> policies() {
  std::vector<PolicyInfo> infos;
  for (const Entry& entry : kEntries) infos.push_back(entry.info);
  return infos;
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  // Written as a negation, so that NaN is refused too.
  if (!(options.fairness >= 0 && options.fairness <= 1))
    return usage_error("fairness = " + number_text(options.fairness) + "; allowed: 0 to 1");
  std::string names;
  for (const Entry& entry : kEntries) {
    if (entry.info.name == name) return entry.make(options);
    names += (names.empty() ? "" : ", ") + std::string(entry.info.name);
  }
  return usage_error("unknown policy \"" + std::string(name) + "\"; allowed: " + names);
}

Status check_queues(std::string_view name, const std::vector<Queue>& queues) {
  if (queues.empty()) return {};
  std::string names;
  for (const Entry& entry : kEntries) {
    if (!entry.info.holds_queues) continue;
    if (entry.info.name == name) return {};
    names += (names.empty() ? "" : ", ") + std::string(entry.info.name);
  }
  return usage_error("policy " + std::string(name) +
                     " does not support quotas and queues, and there is one of name " +
                     queues.front().name + "; choose one that does with --policy: " + names);
}

std::string share_warning(std::string_view name) {
  const auto* entry = std::ranges::find(kEntries, name, [](const Entry& e) { return e.info.name; });
  if (!entry->info.keeps_running) return {};
  return "policy " + std::string(name) +
         " suspends no running job for a queue that has used less, and the weights of queues give "
         "back no lent device while usage decides; only guarantees, tiers and reservations do";
}

}  // namespace es::scheduler
