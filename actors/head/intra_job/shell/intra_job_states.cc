// The intra-job scheduler: the job's saved states on the disks of the nodes. It asks node agents
// what they can read, has them remove what is not wanted, and passes the bytes of a state from the
// node that has it to workers on other nodes, which have no link to that node.
#include <caf/all.hpp>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/head/intra_job/shell/intra_job_actor.h"
#include "actors/worker/version/saved_state_files.h"

namespace es::actors {
namespace {

SavedState state_of(const CheckpointRef& ref) {
  return {ref.path, ref.version, ref.digests};
}

CheckpointRef ref_of(const SavedState& state) {
  return {.path = state.path, .version = state.version, .digests = state.digests};
}

void put_states(capnp::List<wire::SavedState>::Builder list,
                const std::vector<CheckpointRef>& refs) {
  for (unsigned i = 0; i < list.size(); ++i) put(list[i], state_of(refs[i]));
}

// Returns the name of the node; nullopt if the peer is no node.
std::optional<std::string> node_of(const PeerId& peer) {
  const std::string prefix = node_peer("");
  return peer.starts_with(prefix) ? std::optional(peer.substr(prefix.size())) : std::nullopt;
}

}  // namespace

void IntraJobState::perform_effect(const intra_job::FindStates& effect) {
  const auto message =
      Msg<wire::FindStates>::build({.job = options_.job}, [&](wire::FindStates::Builder b) {
        put_states(b.initStates(effect.states.size()), effect.states);
      });
  send_to(node_peer(effect.node), message.frame());
}

void IntraJobState::perform_effect(const intra_job::RemoveCheckpoints& effect) {
  const auto message =
      Msg<wire::RemoveStates>::build({.job = options_.job}, [&](wire::RemoveStates::Builder b) {
        put_states(b.initStates(effect.states.size()), effect.states);
      });
  send_to(node_peer(effect.node), message.frame());
}

// The node also removes checkpoints that were written after the job had stopped waiting for them.
// The record does not contain those.
void IntraJobState::perform_effect(const intra_job::KeepSuspensions& effect) {
  const auto message =
      Msg<wire::RemoveStates>::build({.job = options_.job}, [&](wire::RemoveStates::Builder b) {
        b.setPrefix(options_.config.suspend_prefix);
        b.setBelow(effect.below);
        auto keep = b.initKeep(static_cast<unsigned>(effect.paths.size()));
        for (unsigned i = 0; i < keep.size(); ++i) keep.set(i, effect.paths[i]);
      });
  send_to(node_peer(effect.node), message.frame());
}

void IntraJobState::on_states_found(const Inbound& inbound) {
  const auto node = node_of(inbound.from);
  const auto message = Msg<wire::StatesFound>::from_frame(inbound.frame);
  if (!node || !message) return;
  intra_job::StatesFound found{*node, {}};
  const auto read = message->decode([&](wire::StatesFound::Reader r) {
    for (const auto one : r.getStates()) {
      // A value that this release does not know proves nothing, so it counts as unclear.
      const bool known = one.getSight() <= static_cast<std::uint8_t>(protocol::Sight::kUnclear);
      found.states.push_back(
          {ref_of(saved_state_from(one.getState())),
           known ? static_cast<protocol::Sight>(one.getSight()) : protocol::Sight::kUnclear,
           one.getError().cStr()});
    }
    return 0;
  });
  if (!read) return log(inbound.from + ": " + read.error().message);
  perform(core_->on(intra_job::Event(std::move(found)), now()));
}

void IntraJobState::on_states_removed(const Inbound& inbound) {
  const auto node = node_of(inbound.from);
  const auto message = Msg<wire::StatesRemoved>::from_frame(inbound.frame);
  if (!node || !message) return;
  (void)message->decode([&](wire::StatesRemoved::Reader r) {
    for (const auto path : r.getRemoved())
      log("checkpoint " + std::string(path.cStr()) + " is removed from node " + *node);
    for (const auto problem : r.getProblems())
      log("a checkpoint that is no longer needed cannot be removed from node " + *node + ": " +
              problem.cStr(),
          log::Level::kWarning);
    return 0;
  });
}

// A worker may read only the state that the head has told it to load.
void IntraJobState::on_read_state(const Inbound& inbound) {
  const Incarnation sender = inbound.frame->envelope.sender;
  const auto message = Msg<wire::ReadState>::from_frame(inbound.frame);
  if (!message || inbound.from != worker_peer(sender)) return;
  const auto wanted = message->decode([](wire::ReadState::Reader r) {
    return std::pair<std::string, std::string>(r.getNode().cStr(), r.getPath().cStr());
  });
  if (!wanted) return log(inbound.from + ": " + wanted.error().message);
  const auto& [node, path] = *wanted;
  if (!core_->may_read(sender, path))
    return log("refused to read " + path + " for " + inbound.from +
               ": the head has not told it to load this state");
  send_to(node_peer(node), inbound.frame);
}

// The node repeats the sender of the request in its answer, so the envelope names the worker.
void IntraJobState::on_state_part(const Inbound& inbound) {
  if (node_of(inbound.from)) send_to(worker_peer(inbound.frame->envelope.sender), inbound.frame);
}

}  // namespace es::actors
