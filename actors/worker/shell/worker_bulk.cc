// The part of WorkerActor that moves bulk data between hosts.
#include <caf/all.hpp>

#include <charconv>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/worker/shell/worker_actor.h"
#include "proto/messages.h"

namespace es::actors {
namespace {

constexpr std::string_view kWorkerPrefix = "worker/";

std::optional<Incarnation> incarnation_of(const PeerId& peer) {
  if (!peer.starts_with(kWorkerPrefix)) return std::nullopt;
  Incarnation incarnation;
  const char* end = peer.data() + peer.size();
  const auto read = std::from_chars(peer.data() + kWorkerPrefix.size(), end, incarnation.value);
  return read.ptr == end ? std::optional(incarnation) : std::nullopt;
}

}  // namespace

// A link to a peer broke: messages on their way may be lost.
void WorkerState::on_peer_down(const PeerDown& down) {
  const auto peer = incarnation_of(down.peer);
  if (core_ && peer) perform(core_->on(worker::LinkEvent(worker::LinkLost{*peer}), now()));
}

void WorkerState::on_link(const PeerUp& up) {
  const auto peer = incarnation_of(up.peer);
  if (core_ && peer) perform(core_->on(worker::LinkEvent(worker::LinkMade{*peer}), now()));
}

void WorkerState::on_peer_message(const Inbound& inbound) {
  const MessageType type = inbound.frame->envelope.type;
  if (type == MessageType::kFetchPart) return on_fetch_part(inbound);
  if (type == MessageType::kBulkPart) return on_bulk_part(inbound);
  if (type == MessageType::kOpenChannel) return on_open_channel(inbound);
  if (!protocol::is_peer_message(type))
    return count_refused(inbound.from, "not a message that this peer may send");
  auto message = protocol::decode_peer(inbound.frame);
  if (!message) return count_refused(inbound.from, message.error().message);
  // A late message of an older generation refers to memory that no longer exists, so it is not
  // fetched.
  const bool is_past = protocol::stamp_of(*message).generation < core_->generation();
  if (is_past) return;
  if (worker::channel_bulk(*message) != nullptr)
    return on_channel_message(inbound.from, *std::move(message));
  perform(bulk_pull_.add(*std::move(message)));
}

void WorkerState::perform(worker::BulkPull::Outcome outcome) {
  for (const worker::BulkPull::Request& request : outcome.requests) {
    const auto message = Msg<wire::FetchPart>::build(stamped(), [&](wire::FetchPart::Builder b) {
      b.setSegment(request.segment);
      b.setOffset(request.offset);
      b.setBytes(request.bytes);
    });
    self_->send(gateway_, Outbound{worker_peer(request.of), message.frame()});
  }
  for (const protocol::PeerMessage& message : outcome.complete) take(message);
}

// The message is here with all of its data.
void WorkerState::take(const protocol::PeerMessage& message) {
  const Instant begin = now();
  perform(core_->on(message, begin));
  if (trace_->running() != 0)
    note_exchange(message, protocol::stamp_of(message).sender, false, begin);
}

// The requesting worker must be in the same generation, and may only ask for memory that this
// worker has announced under this generation.
void WorkerState::on_fetch_part(const Inbound& inbound) {
  if (inbound.frame->envelope.generation != core_->generation()) return;
  const auto request = Msg<wire::FetchPart>::from_frame(inbound.frame);
  if (!request) return count_refused(inbound.from, request.error().message);
  const auto sent = request->decode([&](wire::FetchPart::Reader r) {
    send_part(inbound.from, r.getSegment().cStr(), r.getOffset(), r.getBytes());
    return 0;
  });
  if (!sent) count_refused(inbound.from, sent.error().message);
}

void WorkerState::send_part(const PeerId& to, const std::string& segment, std::uint64_t offset,
                            std::uint32_t bytes) {
  // The address of a segment contains its label, and the label contains job, incarnation and
  // generation. A peer can therefore read nothing but what this worker has made for this
  // generation.
  const std::string own =
      ":" + segment_label(options_.job, options_.core.self, core_->generation(), "");
  if (segment.find(own) == std::string::npos || bytes > kPieceBytes)
    return count_refused(to, "a piece of " + std::to_string(bytes) + " bytes of segment " +
                                 segment + ", which this worker has not announced");
  const auto data = own_segments_.read(segment, offset, bytes);
  if (!data) return perform_effect(worker::ReportAnomaly{data.error().message});
  const auto message = Msg<wire::BulkPart>::build(stamped(), [&](wire::BulkPart::Builder b) {
    b.setSegment(segment);
    b.setOffset(offset);
    b.setData({reinterpret_cast<const kj::byte*>(data->data()), data->size()});
  });
  self_->send(gateway_, Outbound{to, message.frame()});
}

void WorkerState::on_bulk_part(const Inbound& inbound) {
  const auto part = Msg<wire::BulkPart>::from_frame(inbound.frame);
  if (!part) return count_refused(inbound.from, part.error().message);
  const ::es::Envelope& envelope = inbound.frame->envelope;
  auto taken = part->decode([&](wire::BulkPart::Reader r) {
    const auto data = r.getData();
    return bulk_pull_.take({envelope.generation, envelope.sender}, r.getSegment().cStr(),
                           r.getOffset(),
                           {reinterpret_cast<const std::byte*>(data.begin()), data.size()});
  });
  if (!taken) return count_refused(inbound.from, taken.error().message);
  // The core hears of every piece, so that a large version does not look like a peer without
  // progress.
  if (taken->progress)
    perform(core_->on(worker::LinkEvent(worker::BytesArrived{envelope.sender}), now()));
  perform(*std::move(taken));
}

// Prepares bulk data for a peer that cannot map the segments of this worker. If there are few
// bytes, they are put into the message; otherwise the message says that the peer may request them.
Status WorkerState::make_bulk_reachable(protocol::PeerMessage& message) {
  const std::vector<protocol::Bulk*> bulks = worker::bulks_of(message);
  const bool travels_inline = worker::travels_inline(bulks);
  for (protocol::Bulk* bulk : bulks) {
    if (bulk->segment.empty()) continue;
    bulk->remote = !travels_inline;
    if (bulk->remote) continue;
    const auto bytes = own_segments_.read(bulk->segment, bulk->offset, bulk->bytes);
    if (!bytes) return bytes.error();
    bulk->inline_bytes =
        std::make_shared<const std::vector<std::byte>>(bytes->begin(), bytes->end());
    bulk->segment.clear();
  }
  return {};
}

}  // namespace es::actors
