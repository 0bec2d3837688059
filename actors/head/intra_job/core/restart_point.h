#pragma once
// RestartPoint decides from where a job continues when no worker holds a version of it. This is the
// newest saved state, on whichever node it lies. An older state or the start of the job is used
// only if everything newer is proven gone (saved_states.h). Until this is decided the job waits,
// and text() says for what.
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/periodic_checkpoints.h"
#include "actors/head/intra_job/core/saved_states.h"

namespace es::actors::intra_job {

class RestartPoint {
 public:
  explicit RestartPoint(JobContext& context) : context_(context) {}

  // All saved states, newest first. The checkpoint from which the run began is one of them.
  std::vector<CheckpointRef> states() const;
  // Chooses the saved state from which the job can continue now, or says why it cannot.
  RestartChoice choose() const { return saved_.choose(states()); }
  // The kind and the state of choose(), at a lower cost.
  const SavedStates::Verdict& verdict() const { return saved_.verdict(states()); }
  // The source from which a round would begin, and its version.
  std::pair<protocol::Source, Version> source() const;
  Version version() const { return source().second; }
  // The version from which the next step begins, as far as the head knows: the newest that a worker
  // holds, otherwise version().
  Version next_version() const;

  // Asks nodes what they can read, if no worker holds a version: those that wrote the newest state,
  // those of the job's devices, and others only if these cannot read it.
  void ask_nodes();
  const std::set<std::string>& nodes() const { return *saved_.nodes(); }
  const NodeNames& node_names() const { return saved_.nodes(); }
  void set_nodes(NodeNames nodes) { saved_.set_nodes(std::move(nodes)); }
  // Forgets the answers of the nodes, because they may be outdated.
  void forget() { saved_.forget(); }
  void forget(const std::string& node) { saved_.forget(node); }
  void take(const StatesFound& event);
  // A member could not read `state` from `node`. If the member reads on its own node's disk, its
  // answer is final (`gone`). Otherwise the node is asked again.
  void could_not_read(const std::string& node, const CheckpointRef& state, bool gone,
                      const std::string& error);

  // Returns whether the job needs a state that cannot be read now. Then it holds no devices,
  // because it cannot use them.
  bool is_missing() const;
  // Text for users, after "waits for"; empty: the job can continue.
  std::string text(const RestartChoice& next) const;
  // Logs each reason for waiting once.
  void report_wait();
  // Returns whether the nodes of these workers have all answered whether they can read the state.
  // Otherwise a worker could be sent to another node for a state that is on its own disk.
  bool is_known_to(const std::set<Incarnation>& workers) const;

  // Forgets the checkpoints newer than `next`, which are proven gone. The steps in between are
  // computed again, with the same bits at D1 and D2.
  void give_up_newer_than(const CheckpointRef& next);
  // Gives up the states that cannot be read, as the user has decided. Returns the text that tells
  // the user what is given up.
  Result<std::string> accept_loss();

  // The last damage that made the job use an older state; empty: none.
  const std::string& warning() const { return warning_; }

 private:
  struct Loss {
    std::vector<CheckpointRef> lost;
    std::optional<CheckpointRef> next;  // the newest state that can be read
  };
  bool any_worker_holds_a_version() const;
  Result<Loss> look_for_loss() const;

  JobContext& context_;
  SavedStates saved_;
  std::string reported_wait_;  // the last text in the log about what the job waits for
  std::string warning_;
};

}  // namespace es::actors::intra_job
