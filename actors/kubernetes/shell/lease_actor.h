#pragma once
// LeaseActor: whether this controller is the one that acts. It keeps the Lease CLUSTER-controller
// (core/lease.h), also while the other actors wait for the head or the server.
//
// Accepts   LookAgain from itself, once a second.
// Sends     ActsUntil to its listeners, when the Lease was renewed or is lost.
// State     When it has written the Lease. Nothing is saved.
// Fails     A server that does not answer: this controller stops acting before another one may.
// Order     It ends last: its end gives the Lease back.
// Threads   Detached, because a request blocks.
#include <vector>

#include "actors/kubernetes/core/lease.h"
#include "actors/kubernetes/shell/messages.h"
#include "actors/kubernetes/shell/shell_parts.h"

namespace es::actors::kubernetes {

class LeaseState {
 public:
  void init(caf::stateful_actor<LeaseState>* self, ControllerOptions options,
            std::vector<caf::actor> listeners);
  void look();
  void give_back();

 private:
  Status keep();
  void tell();

  caf::stateful_actor<LeaseState>* self_ = nullptr;
  ControllerOptions options_;
  std::vector<caf::actor> listeners_;
  std::unique_ptr<KubernetesApi> api_;
  std::unique_ptr<LeaseHolder> lease_;
  std::string name_;
  std::chrono::steady_clock::time_point told_{};
  bool acts_ = false;
  TroubleLog trouble_;
};

caf::behavior lease_actor(caf::stateful_actor<LeaseState>* self, ControllerOptions options,
                          std::vector<caf::actor> listeners);

}  // namespace es::actors::kubernetes
