#pragma once
// Door: which messages of other processes reach the head, and the audit log of the requests that
// came this way. The HTTP service has a door of its own with the same rules (actors/base/access).
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "actors/base/access/shell/audit_log.h"
#include "actors/base/gateway/core/limited_log.h"
#include "actors/base/gateway/shell/gateway_messages.h"

namespace es::actors {

struct DoorOptions {
  // Whose requests come on connections without keys; none: such requests are refused.
  std::optional<access::Identity> unkeyed;
  std::filesystem::path audit_log;
  std::function<std::uint64_t()> unix_ms;  // the date, for the audit log
};

struct Passage {
  bool passes = true;
  std::shared_ptr<const Frame> refusal = nullptr;  // for a client that waits for an answer
};

// Not thread-safe.
class Door {
 public:
  explicit Door(DoorOptions options);

  // A frame of a remote peer.
  Passage on_inbound(const Inbound& inbound);
  // A frame to a remote peer, which may be the answer to a request.
  void on_outbound(const Outbound& outbound);
  void on_peer_down(const PeerId& peer);

 private:
  access::KeyOwner owner_of(const Inbound& inbound) const;

  DoorOptions options_;
  access::OpenRequests open_;
  access::AuditLog audit_;
  LimitedLog log_;
};

}  // namespace es::actors
