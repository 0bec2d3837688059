// ClusterScheduler: claims of serving loads on devices.
#include <caf/all.hpp>

#include "actors/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "actors/log/log.h"
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
  for (const store::ClaimRecord& c : *claims) take(cluster::ClaimMade{c.name, c.type, c.count});
  return {};
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
  save_claim(inbound, *claim, *claim);
}

void ClusterSchedulerState::resize_claim(const Inbound& inbound,
                                         const cluster::ClaimResized& claim) {
  if (const Status ok = core_->check_claim(claim); !ok.ok()) return refuse(inbound, ok.error());
  for (const ClusterCore::ClaimView& known : core_->claims())
    if (known.name == claim.name)
      return save_claim(inbound, {claim.name, known.type, claim.count}, claim);
}

// `claim`: the state of the claim after `event`.
void ClusterSchedulerState::save_claim(const Inbound& inbound, const cluster::ClaimMade& claim,
                                       const cluster::Event& event) {
  // The claim is durable before Done is sent, so an acknowledged claim survives the head.
  const Status saved = not_written(store_->claims().save({claim.name, claim.type, claim.count}));
  if (!saved.ok()) return refuse(inbound, saved.error());
  kill_point("claim.journaled");
  log::info("claim " + claim.name + ": " + claim.type.name + ":" + std::to_string(claim.count));
  take_now(event);
  answer<wire::Done>(inbound, [](auto) {});
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
  log::info("claim " + *name + " is released");
  take_now(cluster::ClaimEnded{*name});
  answer<wire::Done>(inbound, [](auto) {});
}

}  // namespace es::actors
