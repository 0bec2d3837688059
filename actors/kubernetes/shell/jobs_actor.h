#pragma once
// JobsActor: the jobs of the cluster. It carries out what the keeper of each job
// (core/job_keeper.h) says.
//
// Accepts   ObjectsSeen (clusters, jobs) from watches; HeadSeen and HeadAnswered from the
//           HeadActor; ActsUntil; LookAgain from itself.
// Sends     AskHead to the HeadActor. To the server: finalizers, statuses, events.
// State     A keeper for each job. Nothing is saved, and everything is forgotten when another
//           controller acts: objects and the head say what a keeper needs.
// Fails     A server that does not answer: the next look tries again.
// Order     It looks after all messages that have arrived, once. A status is written before an
//           event that tells it.
// Threads   Detached, because a request to the server blocks.
#include <map>

#include "actors/kubernetes/shell/messages.h"
#include "actors/kubernetes/shell/shell_parts.h"

namespace es::actors::kubernetes {

class JobsState {
 public:
  void init(caf::stateful_actor<JobsState>* self, ControllerOptions options);
  void on_objects(const ObjectsSeen& seen);
  void on_mandate(const ActsUntil& mandate);
  void on_head(const HeadSeen& seen, caf::actor head);
  void on_answer(const HeadAnswered& answered);
  void look();

 private:
  void look_soon();
  void forget_gone(const Objects& jobs);
  Surroundings surroundings();
  Status look_after(const std::shared_ptr<const Json>& job, const Surroundings& around);
  Status write_finalizers(const Json& job, const Json& patch);
  Status write_status(const Json& job, const Json& status, JobKeeper& keeper);

  caf::stateful_actor<JobsState>* self_ = nullptr;
  ControllerOptions options_;
  std::unique_ptr<KubernetesApi> api_;
  std::shared_ptr<const Objects> clusters_, jobs_;
  std::optional<HeadSeen> head_seen_;
  caf::actor head_;
  Mandate mandate_;
  std::map<std::string, JobKeeper> keepers_;  // by the uid of the object
  std::uint64_t requests_ = 0;
  bool is_due_ = false;  // a LookAgain is under way
  TroubleLog trouble_;
};

caf::behavior jobs_actor(caf::stateful_actor<JobsState>* self, ControllerOptions options);

}  // namespace es::actors::kubernetes
