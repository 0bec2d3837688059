#pragma once
// NodeList: the answer to ListNodes: the queues, claims and nodes of the cluster, as one client may
// see them.
//
// Ownership: it reads other parts of the actor and changes nothing. Used by one actor.
#include <utility>
#include <vector>

#include "actors/base/access/core/identity.h"
#include "actors/head/cluster_scheduler/core/job_table.h"
#include "actors/head/cluster_scheduler/core/node_book.h"
#include "actors/head/cluster_scheduler/shell/claims.h"
#include "actors/head/cluster_scheduler/shell/cluster_clock.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "actors/head/cluster_scheduler/shell/nodes.h"
#include "proto/messages.h"

namespace es::actors {

class NodeList {
 public:
  struct Sources {
    const Decisions& decisions;
    const JobTable& jobs;
    const Claims& claims;
    const NodeBook& book;
    const Nodes& nodes;
    const std::vector<scheduler::Queue>& queues;  // of the head
    ClusterClock clock;
  };
  explicit NodeList(Sources sources) : from_(std::move(sources)) {}

  // Everything but the warning. `client`: nullptr: it may see all jobs. Jobs of other tenants have
  // no names.
  void put(wire::NodeList::Builder b, const access::Identity* client) const;

 private:
  void put_queues(wire::NodeList::Builder b, const access::Identity* client) const;
  void put_claims(wire::NodeList::Builder b, const access::Identity* client) const;
  void put_nodes(wire::NodeList::Builder b, const access::Identity* client) const;
  void put_node(wire::NodeInfo::Builder b, const DevicePool::NodeView& node,
                const access::Identity* client) const;

  const Sources from_;
};

}  // namespace es::actors
