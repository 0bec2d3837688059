#pragma once
// HeldEffects: what a job wants done and what must wait, because something before it could not be
// made durable. Kept in order: to those to whom it is sent later, the head was slow.
//
// A peer whose link is lost meanwhile has lost what was on its way, and that includes what waits
// here: a node that comes back must not start a process that its job has given up.
//
// Pure; one owner.
#include <cstddef>
#include <deque>
#include <string>

#include "actors/intra_job/fleet.h"
#include "actors/intra_job/intra_job_events.h"

namespace es::actors::intra_job {

class HeldEffects {
 public:
  bool empty() const { return effects_.empty(); }
  std::size_t size() const { return effects_.size(); }
  const Effect& front() const { return effects_.front(); }
  void pop() { effects_.pop_front(); }
  void add(Effect effect) { effects_.push_back(std::move(effect)); }

  // What waits to be sent to this worker is lost.
  void forget_worker(Incarnation worker);
  // What waits to be sent to this node is lost. `fleet`: whom KillWorker means.
  void forget_node(const std::string& node, const Fleet& fleet);

 private:
  std::deque<Effect> effects_;
};

// Somebody will answer to it, within a time limit that must not run before it is performed.
bool awaits_an_answer(const Effect& effect);
// Must be on the disk, with all that was written before it, before it is sent: workers forget then
// what they have told.
bool makes_workers_forget(const SendWorker& effect);

}  // namespace es::actors::intra_job
