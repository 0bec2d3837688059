#pragma once
// ClaimTable: the claims, which are loads outside of EasyScale, and what they have. A part of
// ClusterCore, pure.
//
// A claim takes devices and keeps them until it ends: free devices at once, others as soon as
// training jobs have left them at a step boundary. A returned device goes to claims before it goes
// to jobs; claims are served in the order of their names.
//
// A reservation is a claim with a time. Before its begin it only counts for the limits; at its end
// it is forgotten. A reservation for a queue takes no devices: it raises the guarantee of the
// queue, and the policy finds the devices.
//
// Times are seconds on the clock of the events. Not thread-safe.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "actors/head/cluster_scheduler/core/device_pool.h"
#include "proto/base/result.h"
#include "scheduler/policy/common/queue.h"

namespace es::actors {

// The owner of a claim's devices in the pool. No job has such an id.
JobId claim_owner(const std::string& claim);

class ClaimTable {
 public:
  // Both outlive the object.
  ClaimTable(const cluster::Limits& limits, DevicePool& pool) : limits_(limits), pool_(pool) {}

  // As ClusterCore::check_claim() and check_claim_end().
  Status check(const cluster::ClaimMade& claim) const;
  Status check(const cluster::ClaimResized& claim) const;
  Status check_end(const std::string& name) const;

  // These return false, and change nothing, if the event does not fit.
  bool make(const cluster::ClaimMade& event);
  // The last devices by node and index are given back.
  bool resize(const cluster::ClaimResized& event);
  bool end(const cluster::ClaimEnded& event);

  // Devices of lost nodes that have returned are free: no process of a claim is known to run there.
  void give_back_returned();
  // Ends the reservations whose time is over.
  void end_until(double now_s);
  // Those since the last call, by name.
  std::vector<std::string> take_ended() { return std::exchange(ended_, {}); }
  // Grants free devices to claims that lack some. Returns how many devices of each type they still
  // lack, which may be returning already.
  std::map<DeviceType, std::uint32_t> serve(double now_s);
  // The queues of the configuration, with what is reserved for them now; nullopt: the same as at
  // the last call.
  std::optional<std::vector<scheduler::Queue>> renew_guarantees(double now_s);

  struct View {
    std::string name;
    DeviceType type;
    std::uint32_t count = 0;    // number that the claim asks for
    std::uint32_t devices = 0;  // number that it has; 0 if they are for a queue
    std::string queue{};        // of a reservation for a queue
    bool begun = false;         // false: a reservation that begins later
    std::uint32_t missing = 0;  // devices that it takes and does not have yet
  };
  std::vector<View> views(double now_s) const;  // by name
  // What the claims take whose time has begun, whether they have it or not.
  DeviceSet taken(double now_s) const;
  // Of these, what they do not have.
  DeviceSet missing(double now_s) const;
  // When the next reservation begins or ends; infinity: none does.
  double next_s(double now_s) const;
  std::vector<JobId> owners() const;

 private:
  using Claim = cluster::ClaimMade;
  Status check_count(const Claim& claim) const;
  Status check_guarantees(const Claim& claim, std::uint32_t exist, const std::string& text) const;
  std::uint32_t most_beside(const Claim& claim, bool for_queues) const;
  std::uint32_t missing_to(const Claim& claim, double now_s) const;

  const cluster::Limits& limits_;
  DevicePool& pool_;
  std::map<std::string, Claim> claims_;
  std::vector<std::string> ended_;
  // The reservations of the last renew_guarantees(), with their numbers of devices; nullopt: it was
  // not called yet.
  std::optional<std::map<std::string, std::uint32_t>> guaranteed_;
};

}  // namespace es::actors
