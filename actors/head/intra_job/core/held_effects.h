#pragma once
// HeldEffects contains the effects of a job that wait because an effect before them could not be
// made durable. Their order is kept. To a receiver that gets them later, the head only appears
// slow.
//
// When the link to a peer breaks, messages on the way are lost. This includes the effects that wait
// here: a node that comes back must not start a process that its job has given up.
//
// Pure; one owner.
#include <cstddef>
#include <deque>
#include <string>

#include "actors/head/intra_job/core/fleet.h"
#include "actors/head/intra_job/core/job_events.h"

namespace es::actors::intra_job {

class HeldEffects {
 public:
  bool empty() const { return effects_.empty(); }
  std::size_t size() const { return effects_.size(); }
  const Effect& front() const { return effects_.front(); }
  void pop() { effects_.pop_front(); }
  void add(Effect effect) { effects_.push_back(std::move(effect)); }

  // Drops the messages that wait for this worker.
  void forget_worker(Incarnation worker);
  // Drops the effects that wait for this node. `fleet` says on which node the worker of a
  // KillWorker is.
  void forget_node(const std::string& node, const Fleet& fleet);

 private:
  std::deque<Effect> effects_;
};

// Returns whether the effect is answered within a time limit. The limit must not run before the
// effect is performed.
bool awaits_an_answer(const Effect& effect);
// Returns whether workers forget reported data when they receive this message. Then everything that
// was written before must be on the disk before the message is sent.
bool makes_workers_forget(const SendWorker& effect);

}  // namespace es::actors::intra_job
