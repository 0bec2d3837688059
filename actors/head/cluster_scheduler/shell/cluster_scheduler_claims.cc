// ClusterScheduler: claims of serving loads on devices.
#include <caf/all.hpp>

#include <algorithm>

#include "actors/base/log/log.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "proto/base/kill_point.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

constexpr std::size_t kNameMax = 64;
constexpr const char* kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

Status check_request(const cluster::ClaimMade& claim) {
  const std::string& name = claim.name;
  if (name.empty() || name.size() > kNameMax ||
      name.find_first_not_of(kNameCharacters) != std::string::npos)
    return usage_error("claim name \"" + name + "\": allowed are 1 to " + std::to_string(kNameMax) +
                       " letters, digits, '-', '_' and '.'");
  if (claim.count == 0)
    return usage_error("claim \"" + name + "\": count = 0: allowed is 1 or more");
  return {};
}

}  // namespace

// Restored before any node joins, so that no job is given the devices of a claim.
Status ClusterSchedulerState::restore_claims() {
  const auto claims = store_->claims().load_all();
  if (!claims) return claims.error();
  for (const store::ClaimRecord& c : *claims) {
    if (!c.queue.empty() && scheduler::find_queue(options_.limits.queues, c.queue) == nullptr)
      log::warning("reservation " + c.name + ": there is no queue " + c.queue +
                   " any more, so nothing is reserved");
    claim_times_[c.name] = {c.from_unix_ms, c.until_unix_ms};
    take(claim_of(c));
  }
  return {};
}

// The journal has dates, and the core has a clock that began at another moment.
cluster::ClaimMade ClusterSchedulerState::claim_of(const store::ClaimRecord& record) const {
  cluster::ClaimMade claim{record.name, record.type, record.count};
  if (record.until_unix_ms == 0) return claim;
  const auto seconds_of = [this](std::uint64_t unix_ms) {
    return now_s() + (static_cast<double>(unix_ms) - static_cast<double>(options_.unix_ms())) / 1e3;
  };
  claim.begin_s = seconds_of(record.from_unix_ms);
  claim.end_s = seconds_of(record.until_unix_ms);
  claim.queue = record.queue;
  return claim;
}

// Makes a new claim or, without a device type, changes the number of devices of an existing one.
void ClusterSchedulerState::claim_devices(const Inbound& inbound) {
  const auto claim =
      Msg<wire::ClaimDevices>::from_frame(inbound.frame)->decode([](wire::ClaimDevices::Reader r) {
        return cluster::ClaimMade{name_of(r.getName(), "name"),
                                  {name_of(r.getDeviceType(), "device type")},
                                  r.getCount()};
      });
  if (!claim) return refuse(inbound, claim.error());
  if (const Status ok = check_request(*claim); !ok.ok()) return refuse(inbound, ok.error());
  // A request without a device type names an existing claim; the type of a claim never changes.
  if (claim->type.name.empty()) return resize_claim(inbound, {claim->name, claim->count});
  if (const Status ok = core_->check_claim(*claim); !ok.ok()) return refuse(inbound, ok.error());
  save_claim(inbound, {claim->name, claim->type, claim->count}, *claim);
}

void ClusterSchedulerState::resize_claim(const Inbound& inbound,
                                         const cluster::ClaimResized& claim) {
  if (const Status ok = core_->check_claim(claim); !ok.ok()) return refuse(inbound, ok.error());
  for (const ClusterCore::ClaimView& known : core_->claims()) {
    if (known.name != claim.name) continue;
    const auto [from, until] = claim_times_[claim.name];
    return save_claim(inbound, {claim.name, known.type, claim.count, from, until, known.queue},
                      claim);
  }
}

// The queue that the client has named, or that of its tenant.
Result<std::string> ClusterSchedulerState::reserved_queue(const std::string& queue,
                                                          const std::string& tenant) const {
  if (tenant.empty()) return queue;
  if (!queue.empty())
    return usage_error("queue = \"" + queue + "\" and tenant = \"" + tenant +
                       "\": allowed is one of them");
  std::string found = scheduler::queue_of_job(options_.limits.queues, "", tenant);
  if (found.empty())
    return usage_error("tenant = \"" + tenant + "\": no queue is that of its jobs; allowed are " +
                       "tenants of the queues of the head (esctl queues)");
  return found;
}

// A claim with a time.
void ClusterSchedulerState::reserve_devices(const Inbound& inbound) {
  store::ClaimRecord record;
  const auto tenant = Msg<wire::ReserveDevices>::from_frame(inbound.frame)
                          ->decode([&](wire::ReserveDevices::Reader r) {
                            record = {name_of(r.getName(), "name"),
                                      {name_of(r.getDeviceType(), "device type")},
                                      r.getCount(),
                                      r.getFromUnixMs(),
                                      r.getUntilUnixMs(),
                                      name_of(r.getQueue(), "queue")};
                            return name_of(r.getTenant(), "tenant");
                          });
  if (!tenant) return refuse(inbound, tenant.error());
  auto queue = reserved_queue(record.queue, *tenant);
  if (!queue) return refuse(inbound, queue.error());
  record.queue = *std::move(queue);
  const std::uint64_t now_ms = options_.unix_ms();
  record.from_unix_ms = std::max(record.from_unix_ms, now_ms);
  if (record.until_unix_ms <= record.from_unix_ms)
    return refuse(inbound, usage_error("reservation \"" + record.name +
                                       "\": its end is not after its begin and after now"));
  const cluster::ClaimMade claim = claim_of(record);
  if (const Status ok = check_request(claim); !ok.ok()) return refuse(inbound, ok.error());
  if (const Status ok = core_->check_claim(claim); !ok.ok()) return refuse(inbound, ok.error());
  save_claim(inbound, record, claim);
}

// `record`: the claim after `event`.
void ClusterSchedulerState::save_claim(const Inbound& inbound, const store::ClaimRecord& record,
                                       const cluster::Event& event) {
  // The claim is durable before Done is sent, so an acknowledged claim survives the head.
  const Status saved = not_written(store_->claims().save(record));
  if (!saved.ok()) return refuse(inbound, saved.error());
  kill_point("claim.journaled");
  claim_times_[record.name] = {record.from_unix_ms, record.until_unix_ms};
  log::info("claim " + record.name + ": " + record.type.name + ":" + std::to_string(record.count) +
            (record.queue.empty() ? "" : " for queue " + record.queue));
  take_now(event);
  answer<wire::Done>(inbound, [](auto) {});
}

// Reservations that have ended by themselves leave the journal. One that a crash leaves there ends
// again when the next head reads it.
void ClusterSchedulerState::forget_ended_claims() {
  for (const std::string& name : core_->take_ended_claims()) {
    log::info("reservation " + name + " has ended");
    claim_times_.erase(name);
    write_when_possible([this, name] {
      // A claim of the same name may have been made while the write waited.
      return claim_times_.contains(name) ? Status() : store_->claims().erase(name);
    });
  }
}

void ClusterSchedulerState::release_claim(const Inbound& inbound) {
  const auto name =
      Msg<wire::ReleaseClaim>::from_frame(inbound.frame)->decode([](wire::ReleaseClaim::Reader r) {
        return name_of(r.getName(), "name");
      });
  if (!name) return refuse(inbound, name.error());
  if (const Status ok = core_->check_claim_end(*name); !ok.ok()) return refuse(inbound, ok.error());
  // If the end of the claim were not durable, the next head would take devices from jobs for a
  // claim that has ended.
  if (const Status saved = not_written(store_->claims().erase(*name)); !saved.ok())
    return refuse(inbound, saved.error());
  kill_point("claim.erased");
  claim_times_.erase(*name);
  log::info("claim " + *name + " is released");
  take_now(cluster::ClaimEnded{*name});
  answer<wire::Done>(inbound, [](auto) {});
}

}  // namespace es::actors
