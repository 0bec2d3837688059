#include <algorithm>
#include <map>

#include "actors/base/protocol/core/turn_text.h"
#include "actors/views/explain.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

// The owner that the head names for a device of a claim: this and the name.
constexpr std::string_view kClaimOwner = "claim:";

// What became of the devices of one type. Every device is counted once.
struct TypeUse {
  std::uint32_t all = 0, free = 0, mine = 0, suspect = 0, aside = 0;
  std::map<std::string, std::uint32_t> jobs;      // other jobs that hold some
  std::map<std::string, std::uint32_t> away;      // nodes that are lost
  std::map<std::string, std::uint32_t> draining;  // nodes that are about to end
  std::map<std::string, std::uint32_t> claimed;   // claims that hold some
};

void count_device(const ClusterFacts& facts, const NodeView& node, const DeviceView& device,
                  TypeUse& use) {
  ++use.all;
  if (!node.alive)
    ++use.away[node.name];
  else if (device.suspect_until_unix_ms != 0 && device.job.empty())
    ++use.aside;
  else if (!device.suspect.empty() && device.suspect_until_unix_ms == 0)
    ++use.suspect;
  else if (device.job == facts.job.id)
    ++use.mine;
  else if (device.job.starts_with(kClaimOwner))
    ++use.claimed[device.job.substr(kClaimOwner.size())];
  else if (!device.job.empty())
    ++use.jobs[device.job];
  else if (node.draining || node.gone_unix_ms > 0)
    ++use.draining[node.name];
  else
    ++use.free;
}

std::map<DeviceType, TypeUse> uses_of(const ClusterFacts& facts) {
  std::map<DeviceType, TypeUse> uses;
  for (const NodeView& node : facts.nodes)
    for (const DeviceView& device : node.devices)
      count_device(facts, node, device, uses[{device.type}]);
  return uses;
}

// For example "a (2), b (1)".
std::string list_text(const std::map<std::string, std::uint32_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += (text.empty() ? "" : ", ") + name + " (" + std::to_string(count) + ")";
  return text;
}

// The devices that the job needs: exactly these, or any `any` of `types` (all types if empty).
struct Need {
  std::optional<DeviceSet> exact;
  std::uint32_t any = 0;
  bool mixes = false;  // they may be of several types
  std::vector<DeviceType> types;
  Reason reason;
};

// The head's text says "devices A:1, has none" if the job needs exactly these devices.
std::optional<DeviceSet> exact_devices(const std::string& waiting_for) {
  constexpr std::string_view kBegin = "devices ";
  if (!waiting_for.starts_with(kBegin)) return {};
  const std::size_t end = waiting_for.find(',');
  const auto set =
      parse_device_set(std::string_view(waiting_for).substr(kBegin.size(), end - kBegin.size()));
  return set ? std::optional(*set) : std::nullopt;
}

// The number, from 1, of the stage in which the job is after `step` steps.
std::size_t stage_number(const std::vector<Stage>& stages, std::uint64_t step) {
  std::size_t number = 1;
  for (std::uint64_t end = 0; number < stages.size(); ++number) {
    end += stages[number - 1].steps;
    if (step < end) break;
  }
  return number;
}

Need need_of(const ClusterFacts& facts) {
  const ResourceSpec& resources = facts.spec.resources;
  Need need{.exact = exact_devices(facts.job.waiting_for)};
  if (need.exact && !facts.spec.stages.empty()) {
    const std::vector<Stage>& stages = facts.spec.stages;
    const std::size_t number = stage_number(stages, facts.job.step);
    // A stage begins when the devices of the next one are there, too.
    const bool is_alone = stages[number - 1].devices == *need.exact;
    need.reason = {"stage", "Stage " + std::to_string(number) + " of " +
                                std::to_string(stages.size()) + " of its job file " +
                                (is_alone ? "needs" : "and the next one need") + " exactly " +
                                need.exact->text() + "."};
  } else if (need.exact) {
    need.reason = {"pinned",
                   "A user has chosen its devices (esctl scale, or --devices): exactly " +
                       need.exact->text() + ".",
                   "`esctl scale " + facts.job.id + " auto` returns the choice to the scheduler."};
  } else {
    need.any = std::max(resources.min_devices, 1u);
    need.mixes = facts.spec.level == DeterminismLevel::kD2;
    need.types = resources.device_types;
    // "at least 2 devices of type T": the job began on this type below D2.
    constexpr std::string_view kType = " of type ";
    const std::size_t at = facts.job.waiting_for.find(kType);
    const bool is_bound = at != std::string::npos && facts.job.waiting_for.starts_with("at least");
    if (is_bound) need.types = {{facts.job.waiting_for.substr(at + kType.size())}};
    std::string types;
    for (const DeviceType& type : need.types) types += (types.empty() ? "" : " or ") + type.name;
    need.reason = {"missing", "It needs " + counted(need.any, "device") +
                                  (types.empty() ? "" : " of type " + types) + "."};
    if (is_bound && facts.spec.level != DeterminismLevel::kD2)
      need.reason.text += " At level " + facts.job.level +
                          " the kernels of the type on which it began decide its bits.";
  }
  return need;
}

std::vector<DeviceType> types_of(const Need& need, const std::map<DeviceType, TypeUse>& uses) {
  std::vector<DeviceType> types = need.types;
  if (need.exact)
    for (const DeviceCount& c : need.exact->counts) types.push_back(c.type);
  if (types.empty())
    for (const auto& [type, use] : uses) types.push_back(type);
  return types;
}

void add_reasons_of_type(const DeviceType& type, const TypeUse& use, std::vector<Reason>& reasons) {
  const std::string devices = "the " + counted(use.all, "device") + " of type " + type.name;
  if (!use.jobs.empty())
    reasons.push_back(
        {"held", "Other jobs hold some of " + devices + ": " + list_text(use.jobs) + "."});
  if (!use.claimed.empty())
    reasons.push_back({"claimed",
                       "Claims hold some of " + devices + ": " + list_text(use.claimed) + ".",
                       "`esctl claims` lists them, `esctl release NAME` ends one."});
  if (use.suspect > 0)
    reasons.push_back({"suspect",
                       std::to_string(use.suspect) + " of " + devices +
                           " computed wrongly in an audit and go to no job.",
                       "`esctl nodes` says why; `esctl nodes --clear NODE/TYPE:INDEX` after a "
                       "repair."});
  if (use.aside > 0)
    reasons.push_back({"set-aside",
                       std::to_string(use.aside) + " of " + devices +
                           " are set aside, because tries to use them have failed.",
                       "They are tried again by themselves; `esctl nodes` says why and when."});
  if (!use.away.empty())
    reasons.push_back(
        {"node-away",
         "Some of " + devices + " are on nodes that are lost: " + list_text(use.away) + ".",
         "Start easyscaled there again, or check the network."});
  if (!use.draining.empty())
    reasons.push_back({"draining", "Some of " + devices + " are on nodes that are about to end: " +
                                       list_text(use.draining) + "."});
}

// Devices of these types that the job has or could be given at once.
bool suffices(const Need& need, const std::map<DeviceType, TypeUse>& uses) {
  const auto usable = [&](const DeviceType& type) {
    const auto at = uses.find(type);
    return at == uses.end() ? 0u : at->second.free + at->second.mine;
  };
  if (need.exact)
    return std::ranges::all_of(need.exact->counts,
                               [&](const DeviceCount& c) { return usable(c.type) >= c.count; });
  std::uint32_t all = 0, most = 0;
  for (const DeviceType& type : types_of(need, uses)) {
    all += usable(type);
    most = std::max(most, usable(type));
  }
  return (need.mixes ? all : most) >= need.any;
}

// What the head says about a job for which free devices suffice; empty: it has not decided since
// they became free.
std::string turn_of(const ClusterFacts& facts) {
  for (const JobView& job : facts.jobs)
    if (job.id == facts.job.id && job.waiting_for.starts_with(kTurn))
      return job.waiting_for.substr(kTurn.size());
  return {};
}

// Devices that the cluster does not have at all.
void add_never(const Need& need, const std::map<DeviceType, TypeUse>& uses,
               std::vector<Reason>& reasons) {
  const auto count = [&](const DeviceType& type) {
    const auto at = uses.find(type);
    return at == uses.end() ? 0u : at->second.all;
  };
  std::string missing;
  if (need.exact) {
    for (const DeviceCount& c : need.exact->counts)
      if (count(c.type) < c.count)
        missing += (missing.empty() ? "" : ", ") + c.type.name + " (it has " +
                   std::to_string(count(c.type)) + ")";
  } else {
    std::uint32_t all = 0;
    for (const DeviceType& type : types_of(need, uses)) all += count(type);
    if (all < need.any) missing = "these types (it has " + std::to_string(all) + ")";
  }
  if (!missing.empty())
    reasons.push_back({"missing", "The cluster does not have so many devices of " + missing + ".",
                       "Start a node with such devices, or ask for others (esctl scale)."});
}

// The way around the limit by price of a job with a deadline or a budget.
void add_price(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  if (facts.job.budget <= 0 && facts.spec.resources.deadline_seconds <= 0) return;
  reasons.push_back({"price",
                     std::string("It has a ") + (facts.job.budget > 0 ? "budget" : "deadline") +
                         ", so a head with prices gives it only the cheapest devices that are in "
                         "time.",
                     "`esctl scale " + facts.job.id + " TYPE:COUNT` takes devices at any price."});
}

void add_queue(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  std::size_t waiting = 0, earlier = 0;
  for (const JobView& other : facts.jobs) {
    if (other.state != "queued" || other.id == facts.job.id) continue;
    ++waiting;
    if (other.submitted_unix_ms < facts.job.submitted_unix_ms) ++earlier;
  }
  if (waiting > 0)
    reasons.push_back(
        {"queue", counted(waiting, "other job") + (waiting == 1 ? " waits" : " wait") + " too, " +
                      std::to_string(earlier) + " of them submitted earlier. Its priority is " +
                      std::to_string(facts.spec.resources.priority) +
                      "; the policy of the head decides who is next."});
}

// The devices of a queue as a placement, empty if there are none.
template <class Count>
std::string placement_of(const QueueView& queue, const Count& count) {
  std::string text;
  for (const QueueDevicesView& of : queue.types)
    if (count(of) > 0)
      text += (text.empty() ? "" : "+") + of.type + ":" + std::to_string(count(of));
  return text;
}

void add_tree(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  if (facts.queues.empty()) return;
  const ResourceSpec& asks = facts.spec.resources;
  const QueueView* queue = queue_of_job(facts.queues, asks.queue, asks.tenant);
  if (queue == nullptr) {
    reasons.push_back({"tree", "It is in no queue, and gets what the queues of the head leave."});
    return;
  }
  std::string full;
  for (const QueueView* at = queue; at != nullptr;) {
    for (const QueueDevicesView& of : at->types)
      if (of.limit && of.used >= *of.limit)
        full += (full.empty() ? "" : ", ") + std::to_string(*of.limit) + " " + of.type + " for " +
                at->name;
    const auto parent = std::ranges::find_if(
        facts.queues, [&](const QueueView& other) { return other.name == at->parent; });
    at = parent == facts.queues.end() ? nullptr : &*parent;
  }
  const auto or_none = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  reasons.push_back(
      {"tree", "It is in queue " + queue->name + ", which is entitled to " +
                   or_none(placement_of(*queue, [](const auto& of) { return of.entitled; })) +
                   " now and has " +
                   or_none(placement_of(*queue, [](const auto& of) { return of.used; })) + "." +
                   (full.empty() ? "" : " Limits are reached: " + full + ".")});
}

void add_tenant(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  const std::string& tenant = facts.spec.resources.tenant;
  if (tenant.empty()) return;
  std::string owns, held;
  for (const QueueView& queue : facts.queues)
    if (queue.name == tenant)
      owns = placement_of(queue, [](const auto& of) { return of.guarantee; });
  for (const JobView& other : facts.jobs)
    if (other.tenant == tenant && !other.placement.empty())
      held += (held.empty() ? "" : ", ") + other.placement + " by " + other.id;
  reasons.push_back(
      {"tenant", "It uses the quota of tenant " + tenant + ", which owns " +
                     (owns.empty() ? "no devices and gets what other tenants leave" : owns) +
                     ". Its jobs have " + (held.empty() ? "no devices now" : held) + "."});
}

void add_reasons_of_need(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  const std::map<DeviceType, TypeUse> uses = uses_of(facts);
  const Need need = need_of(facts);
  reasons.push_back(need.reason);
  add_never(need, uses, reasons);
  for (const DeviceType& type : types_of(need, uses))
    if (const auto at = uses.find(type); at != uses.end())
      add_reasons_of_type(type, at->second, reasons);
  const std::string turn = turn_of(facts);
  if (!turn.empty()) {
    reasons.push_back({"free", "Enough devices are free, and it waits for " + turn + "."});
    if (!need.exact) add_price(facts, reasons);
  } else if (suffices(need, uses)) {
    reasons.push_back({"free",
                       "Enough devices have become free since the last decision of the head, "
                       "which decides after every such change."});
  }
  add_queue(facts, reasons);
  add_tree(facts, reasons);
  add_tenant(facts, reasons);
}

// Claims for which the job has to leave devices.
void add_claims(const ClusterFacts& facts, std::vector<Reason>& reasons) {
  for (const ClaimView& claim : facts.claims)
    for (const ClaimWaitView& wait : claim.waits)
      if (wait.job == facts.job.id)
        reasons.push_back({"claimed", "Claim " + claim.name + " takes " +
                                          counted(wait.devices, "device") + " of type " +
                                          claim.type + " from it" +
                                          (wait.reason.empty() ? "" : ": " + wait.reason) + "."});
}

}  // namespace

std::vector<Reason> reasons_of_wait(const ClusterFacts& facts) {
  const JobView& job = facts.job;
  std::vector<Reason> reasons;
  if (job.state == "finished" || job.state == "failed" || job.state == "cancelled" ||
      job.state == "timed-out") {
    reasons.push_back({"over", "The job is over and waits for nothing."});
    if (job.state != "finished" && !job.checkpoint.empty())
      reasons.back().advice =
          "Its newest checkpoint is " + job.checkpoint + "; `esctl submit --from` continues it.";
    return reasons;
  }
  if (job.state == "paused" && job.budget > 0 && job.waiting_for.starts_with("a higher budget")) {
    reasons.push_back({"budget", "It waits for " + job.waiting_for + ".",
                       "`esctl budget " + job.id + " AMOUNT` gives it more, and continues it."});
    return reasons;
  }
  if (job.state == "paused") {
    reasons.push_back(
        {"paused", "A user has paused it.", "`esctl resume " + job.id + "` continues it."});
    if (!job.waiting_for.empty())
      reasons.push_back({"saved-state", "It could not be resumed: " + job.waiting_for + "."});
    return reasons;
  }
  add_claims(facts, reasons);
  const bool needs_devices =
      exact_devices(job.waiting_for) || job.waiting_for.starts_with("at least ");
  if (needs_devices) {
    add_reasons_of_need(facts, reasons);
  } else if (job.waiting_for == "its worker processes to start" || job.state == "starting") {
    reasons.push_back({"starting",
                       "Its worker processes load the data and the model" +
                           (job.placement.empty() ? std::string() : " on " + job.placement) + ".",
                       "If that takes long, look at `esctl logs " + job.id +
                           "` and at worker-N.log in the run directory of the node."});
  } else if (!job.waiting_for.empty()) {
    reasons.push_back({"saved-state", "It waits for " + job.waiting_for + ".",
                       "Start that node again, or give the state up: `esctl resume " + job.id +
                           " --accept-loss`."});
  } else if (job.state == "queued") {
    add_queue(facts, reasons);
    reasons.push_back({"free", "The head does not know yet what it needs."});
  }
  return reasons;
}

}  // namespace es::actors
