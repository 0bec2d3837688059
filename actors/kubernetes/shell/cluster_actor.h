#pragma once
// ClusterActor: the objects of the cluster: its Secret, the Service and the pod of its head, and
// the pods of its agents (core/cluster_objects.h, core/agent_groups.h).
//
// Accepts   ObjectsSeen (clusters, jobs, pods) from watches; HeadSeen from the HeadActor;
//           ActsUntil; LookAgain from itself.
// Sends     To the server: objects, deletions of pods, the status of the cluster.
// State     A planner for each group, and what was applied. Nothing is saved, and everything is
//           forgotten when another controller acts.
// Fails     A server that does not answer: the next look tries again. Without a head no agent comes
//           or goes, because only the head knows which ones are idle.
// Order     It looks after all messages that have arrived, once.
// Threads   Detached, because a request to the server blocks.
#include <map>
#include <vector>

#include "actors/kubernetes/core/agent_groups.h"
#include "actors/kubernetes/shell/messages.h"
#include "actors/kubernetes/shell/shell_parts.h"

namespace es::actors::kubernetes {

class ClusterState {
 public:
  void init(caf::stateful_actor<ClusterState>* self, ControllerOptions options);
  void on_objects(const ObjectsSeen& seen);
  void on_mandate(const ActsUntil& mandate);
  void on_head(const HeadSeen& seen);
  void look();

 private:
  void look_soon();
  void forget();
  Status look_after(const Json& cluster);
  Status make_objects(const Json& cluster);
  Status make_keys();
  Status apply_once(const std::string& collection, const Json& object);
  Status look_after_agents(const Json& cluster, const HeadFacts& head);
  Status write_status(const Json& cluster);

  caf::stateful_actor<ClusterState>* self_ = nullptr;
  ControllerOptions options_;
  std::unique_ptr<KubernetesApi> api_;
  std::shared_ptr<const Objects> clusters_, jobs_, pods_;
  std::optional<HeadSeen> head_seen_;
  Mandate mandate_;
  AgentGroups groups_;
  bool has_keys_ = false;
  std::map<std::string, std::string> applied_;  // what was applied, by path
  Json status_written_;
  bool is_due_ = false;  // a LookAgain is under way
  TroubleLog trouble_;
};

caf::behavior cluster_actor(caf::stateful_actor<ClusterState>* self, ControllerOptions options);

}  // namespace es::actors::kubernetes
