// Checkpoints: which checkpoints nodes remove, and what an audit makes void.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "actors/head/intra_job/core/checkpoints.h"

namespace es::actors::intra_job {

using namespace protocol;

// The bound on the generation protects a checkpoint that is written while this message is on its
// way.
void Checkpoints::keep_suspensions(const std::set<std::string>& but) {
  const JobRecord& record = context_.record;
  const std::string& prefix = context_.config.suspend_prefix;
  // Before its first round the job has written nothing.
  if (prefix.empty() || record.generation.value == 0) return;
  const std::uint64_t below =
      context_.is_ending() ? std::numeric_limits<std::uint64_t>::max() : record.generation.value;
  std::vector<std::string> kept = suspensions(record, prefix);
  kept.insert(kept.end(), record.set_aside.begin(), record.set_aside.end());
  const std::set<std::string>& used = context_.fleet.nodes_used();
  const bool anywhere = ran_before_ || !std::ranges::all_of(used, [this](const std::string& node) {
                          return restart_.nodes().contains(node);
                        });
  for (const std::string& node : anywhere ? restart_.nodes() : used)
    if (!but.contains(node)) context_.emit(KeepSuspensions{node, below, kept});
}

void Checkpoints::report_remaining_suspensions() {
  std::vector<CheckpointRef> away;
  for (CheckpointRef state : restart_.states()) {
    std::erase_if(state.nodes,
                  [this](const std::string& node) { return restart_.nodes().contains(node); });
    if (is_suspension(state, context_.config.suspend_prefix)) away.push_back(std::move(state));
  }
  remove_from_nodes(away);
}

void Checkpoints::remove_from_nodes(const std::vector<CheckpointRef>& states,
                                    const std::string& also) {
  std::map<std::string, std::vector<CheckpointRef>> by_node;
  for (const CheckpointRef& state : states) {
    std::set<std::string> nodes = state.nodes;
    if (!also.empty()) nodes.insert(also);
    for (const std::string& node : nodes) by_node[node].push_back(state);
  }
  for (const auto& [node, on_it] : by_node) {
    if (restart_.nodes().contains(node)) {
      context_.emit(RemoveCheckpoints{node, on_it});
      continue;
    }
    for (const CheckpointRef& state : on_it)
      context_.warn("a checkpoint that is no longer needed cannot be removed: " + state.path +
                    " on node " + node + ", which is away");
  }
}

// A void checkpoint with the same path and other digests lies on another disk.
std::vector<CheckpointRef> Checkpoints::replaced_by(const CheckpointRef& written,
                                                    const std::vector<std::string>& removed) const {
  std::vector<CheckpointRef> states;
  const auto consider = [&](const CheckpointRef& state) {
    if (std::ranges::find(removed, state.path) != removed.end()) states.push_back(state);
  };
  const JobRecord& record = context_.record;
  // The newest checkpoint is never removed, except for a newer one.
  for (const CheckpointRef& state : record.checkpoints)
    if (&state != record.newest_checkpoint() || state.version < written.version) consider(state);
  for (const CheckpointRef& state : record.spoiled) {
    consider(state);
    if (state.path == written.path && state.digests != written.digests) states.push_back(state);
  }
  return states;
}

void Checkpoints::give_up_unfinished(Version good) {
  const std::optional<PeriodicRequest>& pending = periodic_.pending();
  if (!pending) return;
  // The writer may have finished without its report being here yet. Then only the name of the
  // directory is known, and the node of the member that was asked.
  CheckpointRef ref{context_.config.checkpoint_directory + "/step-" + std::to_string(pending->at),
                    pending->at, true};
  if (!context_.members.empty())
    ref.nodes = {context_.fleet.find(context_.members.front().incarnation)->device.node};
  for (const auto& [message, node] : written_)
    if (message.request == pending->number)
      ref = {message.path, message.version, true, {node}, message.digests};
  // No member is beyond the audited step, and the version at which it begins is in the ledger. So a
  // checkpoint of a later version does not exist yet.
  if (ref.version > good && ref.version <= progress_.through())
    context_.record.spoiled.push_back(ref);
}

// Those of the job's own series are removed by the nodes that wrote them or by the next writer.
// Those of clients stay.
std::vector<CheckpointRef> Checkpoints::give_up_newer(Version good) {
  std::vector<CheckpointRef> void_ones;
  for (const CheckpointRef& ref : drop_newer(context_.record, good)) {
    const bool best = context_.record.best == ref;
    if (best) context_.record.best.reset();
    if (ref.periodic || best) {
      void_ones.push_back(ref);
      context_.record.spoiled.push_back(ref);
    } else if (!is_suspension(ref, context_.config.suspend_prefix)) {
      context_.warn("checkpoint " + ref.path + " of version " + std::to_string(ref.version) +
                    " may be spoiled; it is not removed");
    }
  }
  return void_ones;
}

void Checkpoints::restart_series() {
  periodic_ =
      PeriodicCheckpoints(context_.config.spec.checkpoint, context_.last_version, context_.record);
}

}  // namespace es::actors::intra_job
