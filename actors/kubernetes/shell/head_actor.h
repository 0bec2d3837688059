#pragma once
// HeadActor: the connection to the head of the cluster.
//
// Accepts   ObjectsSeen (clusters, pods) from watches; ActsUntil; AskHead from the JobsActor;
//           LookAgain from itself, once a second.
// Sends     HeadSeen to its listeners while this controller acts. HeadAnswered to the sender of
//           AskHead: at once for a submission, later for what takes the head longer. An answer is
//           sent after the HeadSeen that it is newer than.
// State     The link, and requests without an answer. Nothing is saved.
// Fails     A head that does not answer: every open request is answered with a failure, and the
//           link is made anew. Jobs train on.
// Threads   Detached, because a request blocks, up to a minute.
#include <map>
#include <vector>

#include "actors/kubernetes/shell/head_link.h"
#include "actors/kubernetes/shell/messages.h"
#include "actors/kubernetes/shell/shell_parts.h"

namespace es::actors::kubernetes {

class HeadState {
 public:
  void init(caf::stateful_actor<HeadState>* self, ControllerOptions options, ConnectHead connect,
            std::vector<caf::actor> listeners);
  void on_objects(const ObjectsSeen& seen);
  void on_mandate(const ActsUntil& mandate);
  void on_ask(const AskHead& ask, const caf::actor& from);
  void look();

 private:
  struct Open {
    std::string uid;
    std::uint64_t number = 0;
    caf::actor from;
  };

  const Json* cluster() const;
  bool is_head_ready() const;
  Status connect();
  Result<HeadFacts> ask_head();
  void answer(const Open& open, std::string job, Status status);
  void collect_answers();
  // Answers what is open with `why`, and leaves the head.
  void drop(const Error& why);

  caf::stateful_actor<HeadState>* self_ = nullptr;
  ControllerOptions options_;
  ConnectHead connect_;
  std::vector<caf::actor> listeners_;
  std::unique_ptr<KubernetesApi> api_;
  std::unique_ptr<HeadLink> link_;
  std::shared_ptr<const Objects> clusters_, pods_;
  Mandate mandate_;
  std::map<std::uint64_t, Open> open_;  // by the number of the request of the link
  std::uint64_t look_ = 0;              // number of the last facts
};

caf::behavior head_actor(caf::stateful_actor<HeadState>* self, ControllerOptions options,
                         ConnectHead connect, std::vector<caf::actor> listeners);

}  // namespace es::actors::kubernetes
