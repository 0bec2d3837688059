#pragma once
// InventoryMessage: which devices and nodes exist, as live jobs are told. One message is shared by
// all jobs until something changes.
//
// Ownership: it uses the core and the book. Used by one actor.
#include <functional>
#include <optional>

#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "actors/head/cluster_scheduler/core/node_book.h"
#include "proto/messages.h"

namespace es::actors {

class InventoryMessage {
 public:
  InventoryMessage(const ClusterCore& core, const NodeBook& book) : core_(core), book_(book) {}

  // The message as of now, if changed() was called for every node that has come or left.
  Msg<wire::Inventory> current();
  void changed() { last_.reset(); }

 private:
  const ClusterCore& core_;
  const NodeBook& book_;
  // Valid while these devices exist and no node has come or left.
  std::optional<Msg<wire::Inventory>> last_;
  DeviceSet devices_;
};

}  // namespace es::actors
