#pragma once
// NodesToLeave: nodes that jobs have to leave, because they will be gone or because an operator
// says so. They are journaled here; NodeBook knows them, and ClusterCore makes jobs leave.
//
// Durable: a notice, before the request is answered; its end, too.
// Ownership: it uses the journal, the waiting writes, the decisions and the book. Used by one
// actor.
#include <cstdint>
#include <string>
#include <utility>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/cluster_scheduler/core/node_book.h"
#include "actors/head/cluster_scheduler/shell/cluster_clock.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "actors/head/cluster_scheduler/shell/durable_writes.h"
#include "actors/head/head_store.h"

namespace es::actors {

class NodesToLeave {
 public:
  NodesToLeave(HeadStore& store, DurableWrites& writes, Decisions& decisions, NodeBook& book,
               ClusterClock clock)
      : journal_(store.vacated()),
        writes_(writes),
        decisions_(decisions),
        book_(book),
        clock_(std::move(clock)) {}

  // Called before any node joins. Error: the journal cannot be read or written.
  Status restore();
  // VacateNode, a request of a client: jobs leave the node, or may use it again. Errors: a
  // malformed or wrong request; not found: there is no such node; refused: its jobs need not leave
  // it; a failed write.
  Status vacate(const Inbound& request);
  // A node of this name joins. An announced end that has passed concerns an earlier one.
  void forget_gone(const std::string& node);

 private:
  void announce(const std::string& node, std::uint64_t gone_unix_ms);

  store::VacatedNodes& journal_;
  DurableWrites& writes_;
  Decisions& decisions_;
  NodeBook& book_;
  const ClusterClock clock_;
};

}  // namespace es::actors
