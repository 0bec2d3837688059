#pragma once
// OrderedEffects performs the effects of a job's core in order. After one has failed, because the
// state directory cannot be written, it holds all later ones, also those that need no disk: a
// message must not leave before the record that it depends on is durable. When the directory can be
// written again, it performs them in the same order.
//
// The core's time stands still while an effect waits whose answer has a time limit.
//
// One owner. The calls may be nested: an effect may lead to events of the core, whose effects are
// performed within it.
#include <functional>
#include <optional>
#include <string>

#include "actors/head/intra_job/core/held_effects.h"
#include "actors/head/intra_job/shell/job_clock.h"

namespace es::actors {

class OrderedEffects {
 public:
  struct Owner {
    // Error: the effect was not performed and has to be tried again.
    std::function<Status(const intra_job::Effect&)> perform;
    // Called before held effects are performed: writes what waits besides them. Error: it was not
    // written, so the effects wait further.
    std::function<Status()> before_held;
    // A ledger line was added. Called once for each, as soon as it is reported; if its effect
    // waits, only the consequences for the disk wait.
    std::function<void()> step_reported;
    // The directory cannot be written from now on, or still not.
    std::function<void(const Error&)> stalled;
  };
  // `clock` outlives this object.
  OrderedEffects(JobClock& clock, Owner owner) : clock_(clock), owner_(std::move(owner)) {}

  void perform(intra_job::Effects effects);
  // What the owner writes besides the effects could not be written, so they wait from now on.
  void stall(const Error& reason);
  // The directory can be written again. Returns whether everything that waited is performed now;
  // false also if nothing was stalled.
  bool recover();

  // Why effects wait; nullopt: they do not.
  const std::optional<Error>& trouble() const { return stalled_; }
  bool is_stalled() const { return stalled_.has_value(); }
  // Whether no effect waits.
  bool empty() const { return held_.empty(); }

  // Drop what waits for a worker or a node behind a broken link (held_effects.h).
  void forget_worker(Incarnation worker) { held_.forget_worker(worker); }
  void forget_node(const std::string& node, const intra_job::Fleet& fleet) {
    held_.forget_node(node, fleet);
  }

 private:
  bool perform_now(const intra_job::Effect& effect);
  void hold(intra_job::Effect effect);
  void perform_held();

  JobClock& clock_;
  Owner owner_;
  std::optional<Error> stalled_;  // set while the state directory cannot be written
  intra_job::HeldEffects held_;
};

}  // namespace es::actors
