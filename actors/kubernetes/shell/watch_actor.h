#pragma once
// WatchActor: the objects of one kind, listed once and watched from then on.
//
// Accepts   LookAgain from itself only.
// Sends     ObjectsSeen to its listeners, after each list and each change.
// State     The objects (core/object_cache.h). Nothing is saved.
// Fails     After an error the watch goes on from the last version; if the server has forgotten
//           that one (status 410), everything is listed again. While the server does not answer,
//           the last objects stand.
// Limits    A silent watch is begun again after 150 s.
// Threads   Detached, and busy with the watch, so it takes no message until the process ends.
#include <string>
#include <vector>

#include "actors/kubernetes/shell/messages.h"
#include "actors/kubernetes/shell/shell_parts.h"

namespace es::actors::kubernetes {

struct WatchOptions {
  InCluster place;
  ObjectKind kind{};
  std::string path;      // of the collection
  std::string selector;  // a label selector; empty: all
};

class WatchState {
 public:
  void init(caf::stateful_actor<WatchState>* self, WatchOptions options,
            std::vector<caf::actor> listeners);
  void look();

 private:
  Status list();
  Status watch();
  void tell();

  caf::stateful_actor<WatchState>* self_ = nullptr;
  WatchOptions options_;
  std::vector<caf::actor> listeners_;
  std::unique_ptr<KubernetesApi> api_;
  ObjectCache cache_;
  bool listed_ = false;
  bool failing_ = false;
};

caf::behavior watch_actor(caf::stateful_actor<WatchState>* self, WatchOptions options,
                          std::vector<caf::actor> listeners);

}  // namespace es::actors::kubernetes
