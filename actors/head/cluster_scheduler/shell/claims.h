#pragma once
// Claims: requests for devices for loads outside of EasyScale, and for reservations (a claim with a
// time). They are journaled here; ClusterCore serves them (core/claim_table.h).
//
// Durable: a claim, before the request is answered; its end, too.
// Ownership: it uses the journal, the waiting writes and the decisions. Used by one actor.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/cluster_scheduler/shell/cluster_clock.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "actors/head/cluster_scheduler/shell/durable_writes.h"
#include "actors/head/head_store.h"

namespace es::actors {

class Claims {
 public:
  // `queues`: of the head, which outlive this object.
  Claims(HeadStore& store, DurableWrites& writes, Decisions& decisions,
         const std::vector<scheduler::Queue>& queues, ClusterClock clock)
      : journal_(store.claims()),
        writes_(writes),
        decisions_(decisions),
        queues_(queues),
        clock_(std::move(clock)) {}

  // Called before any node joins, so that no job is given the devices of a claim. Error: the
  // journal cannot be read.
  Status restore();

  // The requests of clients. Ok: it is done and durable. Errors: a malformed or wrong request,
  // those of ClusterCore::check_claim(), and a failed write. After an error nothing has changed.
  // ClaimDevices: makes a claim or, without a device type, changes the number of its devices.
  Status claim(const Inbound& request);
  // ReserveDevices: makes a reservation.
  Status reserve(const Inbound& request);
  // ReleaseClaim.
  Status release(const Inbound& request);

  // These reservations have ended by themselves and leave the journal.
  void ended(const std::vector<std::string>& names);
  struct Time {
    std::uint64_t from_unix_ms = 0, until_unix_ms = 0;
  };
  // Of a reservation, as in the journal; 0 and 0 for a claim without a time, or an unknown one.
  Time time_of(const std::string& claim) const;

 private:
  Status resize(const cluster::ClaimResized& claim);
  Result<std::string> reserved_queue(const std::string& queue, const std::string& tenant) const;
  cluster::ClaimMade event_of(const store::ClaimRecord& record) const;
  Status save(const store::ClaimRecord& record, const cluster::Event& event);

  store::ClaimJournal& journal_;
  DurableWrites& writes_;
  Decisions& decisions_;
  const std::vector<scheduler::Queue>& queues_;
  const ClusterClock clock_;
  std::map<std::string, Time> times_;  // of all claims, by name
};

}  // namespace es::actors
