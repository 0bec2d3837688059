#include <algorithm>
#include <cmath>
#include <set>

#include "actors/views/explain.h"
#include "actors/views/render_text.h"
#include "proto/base/sum_routes.h"

namespace es::actors {
namespace {

// A loss that is smaller than this share of the time is not named.
constexpr double kWorthNaming = 0.05;
// A device that is slower than others of its type by less than this factor is not named.
constexpr double kSlow = 1.2;

std::string percent(double share) {
  return fixed(100 * share, 0) + " %";
}

std::string device_text(const WorkerView& worker) {
  return worker.node + "/" + worker.device_type + ":" + std::to_string(worker.device_index);
}

// The seconds that the worker computes in a global step; 0 before the first report.
double busy_seconds(const WorkerView& worker) {
  if (!worker.est_seconds.empty()) {
    double sum = 0;
    for (const double seconds : worker.est_seconds) sum += seconds;
    return sum;
  }
  return worker.local_step_seconds * (worker.rank_end - worker.rank_begin);
}

double slowest_seconds(const JobView& job) {
  double slowest = 0;
  for (const WorkerView& worker : job.workers) slowest = std::max(slowest, busy_seconds(worker));
  return slowest;
}

void add_stragglers(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  for (const WorkerView& worker : facts.job.workers)
    if (worker.slowness >= kSlow)
      reasons.push_back(
          {"stragglers",
           "Device " + device_text(worker) + " is " + fixed(worker.slowness, 1) +
               " times slower than others of its type or than usual.",
           "The job moves ESTs away from it by itself. Look for other load, heat or a "
           "power limit on node " +
               worker.node + "."});
}

// Every device waits for the slowest one.
void add_imbalance(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  const double slowest = slowest_seconds(facts.job);
  double idle = 0;
  for (const WorkerView& worker : facts.job.workers) {
    if (busy_seconds(worker) <= 0) return;
    idle += slowest - busy_seconds(worker);
  }
  if (slowest <= 0) return;
  const double share = idle / (slowest * static_cast<double>(facts.job.workers.size()));
  if (share < kWorthNaming) return;
  reasons.push_back({"imbalance",
                     "Its devices wait " + percent(share) +
                         " of a step for the one that computes longest (" +
                         fixed(slowest * 1e3, 1) + " ms): " + counted(facts.job.max_p, "EST") +
                         " on " + counted(facts.job.workers.size(), "device") + ".",
                     "`esctl plans " + facts.job.id + "` shows which devices would fit better."});
}

void add_data(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  if (facts.job.data_wait_share < kWorthNaming) return;
  reasons.push_back(
      {"data",
       "Its workers waited for data " + percent(facts.job.data_wait_share) + " of the time.",
       "Start the daemons with more --loaders, or put the data on a faster disk."});
}

// What the members send between their nodes in a step, said beside a ring all-reduce of the nodes;
// empty on one node.
std::string sent_between_nodes(const JobView& job) {
  std::vector<SumMember> members;
  std::set<std::string> nodes;
  std::uint64_t ranks = 0;
  for (const WorkerView& worker : job.workers) {
    if (worker.rank_begin == worker.rank_end) continue;
    members.push_back({{worker.rank_begin, worker.rank_end}, worker.node});
    nodes.insert(worker.node);
    ranks += worker.rank_end - worker.rank_begin;
  }
  // A view may be made while the ranks move.
  if (nodes.size() < 2 || ranks != job.max_p) return "";
  const SumRoutes routes(members, job.max_p);
  double sent = 0;  // by the mean owner: the sum to each member on another node, and what it adds
  for (std::uint32_t owner = 0; owner < members.size(); ++owner)
    sent += routes.crossings(owner) +
            static_cast<double>(std::ranges::count_if(members, [&](const SumMember& member) {
              return member.host != members[owner].host;
            }));
  sent /= static_cast<double>(members.size());
  return " Between its " + counted(nodes.size(), "node") + " it sends " +
         fixed(sent / (2 * static_cast<double>(nodes.size() - 1)), 2) +
         " times the bytes of a ring all-reduce.";
}

// What a step takes beyond the computation of the slowest device.
void add_exchange(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  const double slowest = slowest_seconds(facts.job);
  if (!facts.plans || facts.plans->pace_seconds <= 0 || slowest <= 0) return;
  const double pace = facts.plans->pace_seconds;
  const double share = (pace - slowest) / pace;
  if (share < kWorthNaming) return;
  reasons.push_back(
      {"exchange",
       "Of a step of " + fixed(pace * 1e3, 1) + " ms, " + percent(share) +
           " is not computation of mini-batches: gradients are exchanged and summed, "
           "parameters updated, processes wait for a core." +
           sent_between_nodes(facts.job),
       "Fewer devices, devices on fewer nodes, or a larger batch_size make that share smaller."});
}

std::uint32_t device_count_of(const PlanView& plan) {
  std::uint32_t sum = 0;
  for (const PlanPartView& part : plan.parts) sum += part.devices;
  return sum;
}

std::string devices_text(const PlanView& plan) {
  DeviceSet set;
  for (const PlanPartView& part : plan.parts) set.add(part.type, part.devices);
  return set.text();
}

// How much faster the job would be on the devices of its best plan.
void add_more_devices(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  if (!facts.plans || facts.plans->plans.empty()) return;
  const std::vector<PlanView>& plans = facts.plans->plans;
  const PlanView& best = plans.front();
  const auto now = std::ranges::find_if(plans, [](const PlanView& p) { return p.runs; });
  if (now == plans.end() || now == plans.begin() || best.seconds_per_step <= 0) return;
  const double factor = now->seconds_per_step / best.seconds_per_step;
  if (factor < 1 + kWorthNaming) return;
  const bool fixed_devices = !facts.spec.stages.empty();
  const std::string advice =
      fixed_devices ? "The stages of its job file decide its devices."
      : device_count_of(best) < device_count_of(*now)
          ? "`esctl scale " + facts.job.id + " " + devices_text(best) + "` moves it there."
          : "`esctl nodes` and `esctl ps` show who holds them; `esctl plans " + facts.job.id +
                "` shows the steps between.";
  // Assumed speeds know ratios only.
  const std::string times =
      best.measured ? "take " + fixed(best.seconds_per_step * 1e3, 1) + " ms instead of " +
                          fixed(now->seconds_per_step * 1e3, 1) + " ms, " + fixed(factor, 1) +
                          " times as fast"
                    : "be " + fixed(factor, 1) + " times as fast, if its speeds are as assumed";
  reasons.push_back({"more-devices",
                     "It has " + counted(device_count_of(*now), "device") + "; on " +
                         devices_text(best) + " a step would " + times + ".",
                     advice});
}

void add_threads(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  const bool on_cpus = std::ranges::all_of(facts.job.workers, [](const WorkerView& worker) {
    return worker.device_type.starts_with("cpu-");
  });
  if (facts.job.workers.empty() || !on_cpus || facts.spec.resources.threads > 1) return;
  reasons.push_back({"threads", "Each of its devices computes with one thread.",
                     "Where nodes have free cores, resources.threads of the job file uses them; "
                     "the bits do not change."});
}

void add_audits(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  const std::uint64_t every = facts.spec.audit.every_steps;
  if (every == 0) return;
  const double share = 1.0 / (static_cast<double>(every) * facts.spec.max_p);
  if (share < kWorthNaming) return;
  reasons.push_back({"audits", "Audits compute one of its " + counted(facts.spec.max_p, "EST") +
                                   " again in every " +
                                   (every == 1 ? "step" : std::to_string(every) + " steps") + "."});
}

// The share of the time since the submission that made progress, and the losses by cause.
void add_lost_time(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  const JobView& job = facts.job;
  if (facts.now_unix_ms <= job.submitted_unix_ms || job.stages.empty()) return;
  const double all = static_cast<double>(facts.now_unix_ms - job.submitted_unix_ms) / 1e3;
  double training = 0, pauses = 0;
  for (const StageView& stage : job.stages) {
    training += stage.seconds;
    pauses += stage.rescale_seconds;
  }
  const double waits = std::max(0.0, all - training - pauses);
  if (pauses / all >= kWorthNaming)
    reasons.push_back({"pauses",
                       "Of the " + fixed(all, 0) + " s since its submission, " +
                           percent(pauses / all) + " went into pauses before " +
                           counted(job.stages.size(), "placement") +
                           ", in which processes start or the state moves.",
                       "`esctl describe " + job.id + "` lists them; `esctl logs` says why."});
  if (waits / all >= kWorthNaming)
    reasons.push_back({"waits", "Of the " + fixed(all, 0) + " s since its submission, " +
                                    percent(training / all) + " were training and " +
                                    percent(waits / all) +
                                    " neither training nor a pause: it waited for devices, was "
                                    "paused, or processes started."});
}

}  // namespace

std::vector<Reason> reasons_of_speed(const ClusterFacts& facts) {
  std::vector<Reason> reasons;
  add_stragglers(facts, reasons);
  add_more_devices(facts, reasons);
  add_imbalance(facts, reasons);
  add_data(facts, reasons);
  add_exchange(facts, reasons);
  add_audits(facts, reasons);
  add_lost_time(facts, reasons);
  add_threads(facts, reasons);
  return reasons;
}

}  // namespace es::actors
