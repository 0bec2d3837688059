// The part of WorkerActor that fetches a saved state from another node's disk, through the head.
#include <caf/all.hpp>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/worker/shell/worker_actor.h"
#include "proto/messages.h"

namespace es::actors {

void WorkerState::perform_effect(const worker::PullState& effect) {
  state_from_ = effect.from;
  state_pull_ = std::make_unique<worker::StatePull>(options_.pull_directory);
  send(state_pull_->begin());
}

void WorkerState::send(const worker::StatePull::Outcome& outcome) {
  ::es::Envelope envelope = stamped();
  envelope.step = core_->target();
  for (const worker::StatePull::Request& request : outcome.requests) {
    const auto message = Msg<wire::ReadState>::build(envelope, [&](wire::ReadState::Builder b) {
      b.setNode(state_from_.node);
      b.setPath(state_from_.path);
      b.setFile(request.file);
      b.setOffset(request.offset);
      b.setBytes(request.bytes);
    });
    self_->send(gateway_, Outbound{kHeadPeer, message.frame()});
  }
  // release() hands the files over, so the copy outlives the StatePull. The device half removes it
  // after the load.
  if (!outcome.complete) return;
  const std::string copy = state_pull_->release().string();
  state_pull_.reset();
  perform(core_->on(worker::PullEvent(worker::StatePulled{core_->generation(), copy}), now()));
}

// `gone` is true if the node has found that no whole checkpoint is there. If it is false, the
// checkpoint may exist.
void WorkerState::give_up_pull(const std::string& error, bool gone) {
  state_pull_.reset();
  const std::string text = "from node " + state_from_.node + ": " + error;
  perform(core_->on(worker::PullEvent(worker::PullFailed{core_->generation(), text, gone}), now()));
}

void WorkerState::on_state_part(const Inbound& inbound) {
  const ::es::Envelope& envelope = inbound.frame->envelope;
  if (!state_pull_ || envelope.generation != core_->generation()) return;
  const auto message = Msg<wire::StatePart>::from_frame(inbound.frame);
  if (!message) return count_refused(inbound.from, message.error().message);
  const auto read = message->decode([&](wire::StatePart::Reader r) {
    // A late part of an earlier source of this generation is ignored.
    if (r.getPath().cStr() == state_from_.path) take_state_part(r);
    return 0;
  });
  if (!read) count_refused(inbound.from, read.error().message);
}

void WorkerState::take_state_part(wire::StatePart::Reader r) {
  if (r.getError().size() > 0) return give_up_pull(r.getError().cStr(), r.getGone());
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t bytes : r.getSizes()) sizes.push_back(bytes);
  const auto data = r.getData();
  const auto taken =
      state_pull_->take(r.getFile(), r.getOffset(),
                        {reinterpret_cast<const std::byte*>(data.begin()), data.size()}, sizes);
  if (!taken) return give_up_pull(taken.error().message, false);
  perform(core_->on(worker::PullEvent(worker::PullProgress{core_->generation()}), now()));
  send(*taken);
}

}  // namespace es::actors
