// The part of WorkerActor that moves bulk data between devices through channels.
#include <caf/all.hpp>

#include "actors/base/log/log.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/worker/shell/worker_actor.h"
#include "proto/messages.h"

namespace es::actors {

void WorkerState::on_copied_out(const CopiedOut& copied) {
  // A new generation may have begun while the device half copied.
  if (protocol::stamp_of(copied.send.message).generation == core_->generation())
    perform_effect(copied.send);
}

void WorkerState::put_into_channel(Incarnation to, protocol::PeerMessage& message) {
  for (protocol::Bulk* const bulk : worker::bulks_of(message)) {
    // The bytes go through the channel and the message through the gateway. The transfer number
    // lets the receiver match them. The address in host memory is removed, because the receiver
    // must not read it.
    channels_->perform(worker::SendBytes{core_->generation(), to, *bulk});
    bulk->segment.clear();
    bulk->offset = 0;
    bulk->device = nullptr;
    bulk->transfer = channel_book_.announce(to);
  }
}

void WorkerState::on_open_channel(const Inbound& inbound) {
  const ::es::Envelope& envelope = inbound.frame->envelope;
  if (envelope.generation != core_->generation()) return;
  const auto offer = Msg<wire::OpenChannel>::from_frame(inbound.frame);
  if (!offer) return count_refused(inbound.from, offer.error().message);
  const auto joined = offer->decode([&](wire::OpenChannel::Reader r) {
    const std::string kind = r.getKind().cStr();
    if (!channels_ || kind != options_.core.channel.kind) return false;
    const auto id = r.getId().asChars();
    channels_->perform(worker::JoinChannel{envelope.generation, envelope.sender,
                                           std::string(id.begin(), id.size())});
    return true;
  });
  if (!joined) return count_refused(inbound.from, joined.error().message);
  if (!*joined) count_refused(inbound.from, "a channel of a kind that this worker does not have");
}

void WorkerState::on_channel_message(const PeerId& from, protocol::PeerMessage message) {
  const protocol::Stamp stamp = protocol::stamp_of(message);
  if (!channels_ || worker::bulks_of(message).size() != 1)
    return count_refused(from, "data for a channel that does not exist");
  const auto arrival = channel_inbox_.add(std::move(message));
  if (arrival.receive)
    channels_->perform(worker::ReceiveBytes{stamp.generation, stamp.sender, *arrival.receive});
  if (arrival.lost) on_bulk_lost(stamp.sender, "channel: a message was lost");
}

void WorkerState::on_channel(const ChannelReport& report) {
  std::visit(
      [this](const auto& event) {
        // The thread of the channels may report something of a generation that has ended since.
        if (event.generation == core_->generation()) on_event(event);
      },
      report.event);
}

void WorkerState::on_event(const worker::ChannelOffered& event) {
  const auto message = Msg<wire::OpenChannel>::build(stamped(), [&](wire::OpenChannel::Builder b) {
    b.setKind(options_.core.channel.kind);
    b.setId({reinterpret_cast<const kj::byte*>(event.id.data()), event.id.size()});
  });
  self_->send(gateway_, Outbound{worker_peer(event.to), message.frame()});
}

void WorkerState::on_event(const worker::ChannelReady& event) {
  channel_book_.ready(event.to);
  if (channel_peers_.insert(event.to).second)
    log::info("gradients to worker " + std::to_string(event.to.value) + " are sent through " +
              options_.core.channel.kind);
}

void WorkerState::on_event(const worker::BytesReceived& event) {
  perform(core_->on(worker::LinkEvent(worker::BytesArrived{event.from}), now()));
  const auto message = channel_inbox_.take(event.from, event.bytes);
  if (message) take(*message);
}

// The sender's end broke. The data may have arrived, so this is not reported as an anomaly; the
// peer knows whether it is missing, and may have begun a round already.
void WorkerState::on_event(const worker::ChannelBroken& event) {
  if (event.end == gpu::cuda::ChannelEnd::kReceiver) {
    if (channel_inbox_.broken(event.peer)) on_bulk_lost(event.peer, event.error);
  } else if (channel_book_.broken(event.peer, now())) {
    perform(core_->on(worker::LinkEvent(worker::LinkLost{event.peer}), now()));
  }
}

void WorkerState::on_bulk_lost(Incarnation peer, const std::string& error) {
  perform_effect(worker::ReportAnomaly{error + " (worker " + std::to_string(peer.value) + ")"});
  perform(core_->on(worker::LinkEvent(worker::LinkLost{peer}), now()));
}

}  // namespace es::actors
