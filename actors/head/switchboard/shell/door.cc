#include "actors/head/switchboard/shell/door.h"

#include <utility>

#include "actors/base/access/core/requests.h"
#include "actors/base/log/log.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/base/protocol/wire/wire_error.h"
#include "proto/messages.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

constexpr int kForbidden = 403;

template <class Schema, class Read>
std::string read_text(const Inbound& inbound, Read&& read) {
  const auto message = Msg<Schema>::from_frame(inbound.frame);
  if (!message) return {};
  auto text = message->decode(std::forward<Read>(read));
  return text ? *std::move(text) : std::string();
}

// What the request is about, for the audit log: a job, a claim or a device; empty: nothing, or what
// cannot be read.
std::string subject_of(const Inbound& inbound) {
  switch (inbound.frame->envelope.type) {
    case MessageType::kClaimDevices:
      return read_text<wire::ClaimDevices>(inbound, [](auto r) { return line_of(r.getName()); });
    case MessageType::kReserveDevices:
      return read_text<wire::ReserveDevices>(inbound, [](auto r) { return line_of(r.getName()); });
    case MessageType::kVacateNode:
      return read_text<wire::VacateNode>(inbound, [](auto r) { return line_of(r.getNode()); });
    case MessageType::kReleaseClaim:
      return read_text<wire::ReleaseClaim>(inbound, [](auto r) { return line_of(r.getName()); });
    case MessageType::kClearDevice:
      return read_text<wire::ClearDevice>(inbound,
                                          [](auto r) { return device_from(r.getDevice()).text(); });
    default:
      return inbound.frame->envelope.job;
  }
}

int status_of_answer(const std::shared_ptr<const Frame>& frame) {
  if (frame->envelope.type != MessageType::kRefusal) return 200;
  const auto kind = Msg<wire::Refusal>::from_frame(frame)->decode(
      [](wire::Refusal::Reader r) { return error_kind_from(r.getKind()); });
  return access::status_of(kind ? *kind : ErrorKind::kFailure);
}

}  // namespace

Door::Door(DoorOptions options)
    : options_(std::move(options)),
      audit_(options_.audit_log),
      log_([](const std::string& line) { log::warning(line); }) {}

// A connection without keys is protected by the file permissions of its socket, or the head was
// told to trust this machine.
access::KeyOwner Door::owner_of(const Inbound& inbound) const {
  if (inbound.sender && inbound.sender->owner) return *inbound.sender->owner;
  return {.name = options_.unkeyed ? options_.unkeyed->name : inbound.from,
          .client = options_.unkeyed,
          .node = true};
}

Passage Door::on_inbound(const Inbound& inbound) {
  const Envelope& envelope = inbound.frame->envelope;
  const access::KeyOwner owner = owner_of(inbound);
  const access::RequestKind* kind = access::request_kind(envelope.type);
  const Status allowed = access::check_message(owner, envelope.type);
  if (kind != nullptr && kind->changes()) {
    access::AuditEntry entry{.unix_ms = options_.unix_ms(),
                             .who = owner.name,
                             .role = owner.client ? role_name(owner.client->role) : "node",
                             .from = inbound.sender && !inbound.sender->address.empty()
                                         ? inbound.sender->address
                                         : inbound.from,
                             .method = kind->name,
                             .path = subject_of(inbound),
                             .status = {}};
    if (!allowed.ok()) entry.status = kForbidden;
    if (!allowed.ok() || envelope.request == 0)
      audit_.write(entry);
    else if (const auto older = open_.begin(inbound.from, envelope.request, std::move(entry)))
      audit_.write(*older);
  }
  if (allowed.ok()) return {};
  log_.line(std::chrono::steady_clock::now(), "refused a message",
            "of " + inbound.from + ": " + allowed.error().message);
  if (envelope.request == 0) return {.passes = false};
  const auto refusal = Msg<wire::Refusal>::build({.job = envelope.job, .request = envelope.request},
                                                 [&](wire::Refusal::Builder b) {
                                                   b.setKind(to_wire(allowed.error().kind));
                                                   b.setMessage(allowed.error().message);
                                                 });
  return {.passes = false, .refusal = refusal.frame()};
}

void Door::on_outbound(const Outbound& outbound) {
  auto entry = open_.end(outbound.to, outbound.frame->envelope.request);
  if (!entry) return;
  entry->status = status_of_answer(outbound.frame);
  if (outbound.frame->envelope.type == MessageType::kJobAccepted) {
    const auto job =
        Msg<wire::JobAccepted>::from_frame(outbound.frame)->decode([](wire::JobAccepted::Reader r) {
          return line_of(r.getJob());
        });
    if (job) entry->path = *job;
  }
  audit_.write(*entry);
}

void Door::on_peer_down(const PeerId& peer) {
  for (const access::AuditEntry& entry : open_.end_all(peer)) audit_.write(entry);
}

}  // namespace es::actors
