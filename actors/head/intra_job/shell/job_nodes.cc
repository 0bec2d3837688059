#include "actors/head/intra_job/shell/job_nodes.h"

#include <utility>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/gateway/shell/visit.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/worker/state/saved_state_files.h"

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

intra_job::StateFound found_of(wire::FoundState::Reader r) {
  // A value that this release does not know proves nothing, so it counts as unclear.
  const bool known = r.getSight() <= static_cast<std::uint8_t>(protocol::Sight::kUnclear);
  return {ref_of(saved_state_from(r.getState())),
          known ? static_cast<protocol::Sight>(r.getSight()) : protocol::Sight::kUnclear,
          r.getError().cStr()};
}

}  // namespace

std::optional<std::string> node_of(const PeerId& peer) {
  const std::string prefix = node_peer("");
  return peer.starts_with(prefix) ? std::optional(peer.substr(prefix.size())) : std::nullopt;
}

template <class Schema, class Fill>
void JobNodes::tell(const std::string& node, Fill&& fill) {
  const Envelope envelope{.job = needs_.archive.record().id};
  needs_.mail.to_peer(node_peer(node),
                      Msg<Schema>::build(envelope, std::forward<Fill>(fill)).frame());
}

Status JobNodes::perform(const intra_job::StartWorker& effect) {
  // The incarnation is durable before the process exists, so no later head can give it out again.
  ES_RETURN_IF_ERROR(needs_.archive.keep_incarnations());
  tell<wire::StartWorker>(effect.device.node, [&](wire::StartWorker::Builder b) {
    b.setIncarnation(effect.incarnation.value);
    put(b.initDevice(), effect.device);
    b.setSpecToml(needs_.archive.record().spec_toml);
  });
  return {};
}

void JobNodes::perform(const intra_job::KillWorker& effect) {
  const auto& workers = needs_.core.fleet().workers();
  const auto at = workers.find(effect.incarnation);
  if (at == workers.end()) return;
  tell<wire::KillWorker>(at->second.device.node, [&](wire::KillWorker::Builder b) {
    b.setIncarnation(effect.incarnation.value);
  });
}

void JobNodes::perform(const intra_job::FindStates& effect) {
  tell<wire::FindStates>(effect.node, [&](wire::FindStates::Builder b) {
    put_states(b.initStates(effect.states.size()), effect.states);
  });
}

void JobNodes::perform(const intra_job::RemoveCheckpoints& effect) {
  tell<wire::RemoveStates>(effect.node, [&](wire::RemoveStates::Builder b) {
    put_states(b.initStates(effect.states.size()), effect.states);
  });
}

// The node also removes checkpoints that were written after the job had stopped waiting for them.
// The record does not contain those.
void JobNodes::perform(const intra_job::KeepSuspensions& effect) {
  tell<wire::RemoveStates>(effect.node, [&](wire::RemoveStates::Builder b) {
    b.setPrefix(needs_.config.suspend_prefix);
    b.setBelow(effect.below);
    auto keep = b.initKeep(static_cast<unsigned>(effect.paths.size()));
    for (unsigned i = 0; i < keep.size(); ++i) keep.set(i, effect.paths[i]);
  });
}

std::optional<intra_job::StatesFound> JobNodes::states_found(const Inbound& inbound) {
  const auto node = node_of(inbound.from);
  if (!node) return {};
  intra_job::StatesFound found{*node, {}};
  const Status read = visit<wire::StatesFound>(inbound, [&](wire::StatesFound::Reader r) {
    for (const auto one : r.getStates()) found.states.push_back(found_of(one));
  });
  if (read.ok()) return found;
  needs_.log.write(inbound.from + ": " + read.error().message);
  return {};
}

void JobNodes::on_states_removed(const Inbound& inbound) {
  const auto node = node_of(inbound.from);
  if (!node) return;
  (void)visit<wire::StatesRemoved>(inbound, [&](wire::StatesRemoved::Reader r) {
    for (const auto path : r.getRemoved())
      needs_.log.write("checkpoint " + std::string(path.cStr()) + " is removed from node " + *node);
    for (const auto problem : r.getProblems())
      needs_.log.write("a checkpoint that is no longer needed cannot be removed from node " +
                           *node + ": " + problem.cStr(),
                       log::Level::kWarning);
  });
}

// A worker may read only the state that the head has told it to load.
void JobNodes::on_read_state(const Inbound& inbound) {
  const Incarnation sender = inbound.frame->envelope.sender;
  if (inbound.from != worker_peer(sender)) return;
  const auto wanted = visit<wire::ReadState>(inbound, [](wire::ReadState::Reader r) {
    return std::pair<std::string, std::string>(r.getNode().cStr(), r.getPath().cStr());
  });
  if (!wanted) return needs_.log.write(inbound.from + ": " + wanted.error().message);
  const auto& [node, path] = *wanted;
  if (!needs_.core.may_read(sender, path))
    return needs_.log.write("refused to read " + path + " for " + inbound.from +
                            ": the head has not told it to load this state");
  needs_.mail.to_peer(node_peer(node), inbound.frame);
}

// The node repeats the sender of the request in its answer, so the envelope names the worker.
void JobNodes::on_state_part(const Inbound& inbound) {
  if (node_of(inbound.from))
    needs_.mail.to_peer(worker_peer(inbound.frame->envelope.sender), inbound.frame);
}

}  // namespace es::actors
