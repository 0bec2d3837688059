#pragma once
// Suspects: devices that an audit found to be wrong. They are journaled here; ClusterCore gives
// them to no job (core/device_trials.h).
//
// Durable: that a device may be used again, before it can be granted.
// Ownership: it uses the journal, the waiting writes and the decisions. Used by one actor.
#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/core/job_cluster.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "actors/head/cluster_scheduler/shell/durable_writes.h"
#include "actors/head/head_store.h"

namespace es::actors {

class Suspects {
 public:
  Suspects(HeadStore& store, DurableWrites& writes, Decisions& decisions)
      : journal_(store.suspects()), writes_(writes), decisions_(decisions) {}

  // Called before any node joins, so that none of these devices looks free. Error: the journal
  // cannot be read.
  Status restore();
  // The device is withheld at once, and journaled as soon as possible.
  void add(const protocol::DeviceSuspected& suspected);
  // ClearDevice, a request of a client: the device may be used again. Errors: a malformed request;
  // not found: it is not suspect; nothing can be written.
  Status clear(const Inbound& request);

 private:
  store::SuspectDevices& journal_;
  DurableWrites& writes_;
  Decisions& decisions_;
};

}  // namespace es::actors
