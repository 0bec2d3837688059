#pragma once
// Who may send which message to a head. These functions decide for both doors of a head: for the
// connections of esctl, nodes and workers, and for the HTTP service, whose requests stand for the
// same messages.
#include <span>
#include <string>

#include "actors/base/access/core/identity.h"
#include "proto/message_type.h"

namespace es::actors::access {

// A message that a client may send (client.capnp). Nodes and workers send all others.
struct RequestKind {
  MessageType type;
  const char* name;
  Role role;       // the role that it needs
  bool about_job;  // the envelope names a job
  // Whether the request may change or slow down something, and so belongs into the audit log.
  bool changes() const { return role > Role::kView; }
};

std::span<const RequestKind> request_kinds();
// None: no client sends this message.
const RequestKind* request_kind(MessageType type);

// Whether a client may send this request, as far as its role decides. Error: refused.
// REQUIRES: request_kind(type) exists.
Status check_request(const Identity& who, MessageType type);

// The same for every message on a connection. Messages of nodes and workers need the key of a node,
// and such a key may send no request of a client. Error: refused.
Status check_message(const KeyOwner& sender, MessageType type);

// Whether a client may know this job. Error: not found, with the text for a job that does not
// exist, so that the names of other tenants' jobs stay unknown.
Status check_job(const Identity& who, const JobId& named, const std::string& tenant_of_job);
Error no_such_job(const JobId& named);
// What stands for the job of another tenant that holds a device.
inline const std::string kOtherTenant = "(another tenant)";

// The tenant of a job that this client submits, where its text names `asked` (empty: none).
// Error: refused, a client with a tenant submits for another one.
Result<std::string> tenant_for(const Identity& who, const std::string& asked);

}  // namespace es::actors::access
