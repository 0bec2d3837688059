#pragma once
// The audit log: one line for each request to a head that may change something, however it came.
// Pure functions; shell/audit_log.h has the file.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/access/core/identity.h"

namespace es::actors::access {

struct AuditEntry {
  std::uint64_t unix_ms = 0;
  std::string who;     // empty: not known
  std::string role;    // "node" for a node's key; empty: not known
  std::string from;    // address; for a local socket localhost:UID:GID:PID
  std::string method;  // HTTP's method, or the name of the message
  std::string path;    // HTTP's path, or the job, claim or device
  // A status of HTTP, also for the messages of esctl; none: not known, since the client has gone
  // before the answer, or has not asked for one.
  std::optional<int> status;
};

// {"unix_ms", "who", "role", "from", "method", "path", "status"} and a line break.
std::string audit_line(const AuditEntry& entry);

// What has changed in the directory of authorized keys, which the head reads again and again: one
// entry for each key that was authorized, changed or revoked. It is not known who has done it.
std::vector<AuditEntry> key_changes(const AuthorizedKeys& before, const AuthorizedKeys& now,
                                    std::uint64_t unix_ms);

// The status of an answer: 200, or by the kind of the error: usage 400, not found 404, refused 409,
// failure 500.
int status_of(ErrorKind kind);

// The requests that wait for their answers.
class OpenRequests {
 public:
  // REQUIRES: the number is not 0. A client that uses a number twice gets its older entry back,
  // whose result stays unknown.
  std::optional<AuditEntry> begin(const std::string& peer, std::uint64_t number, AuditEntry entry);
  // The entry, if this is the answer to such a request.
  std::optional<AuditEntry> end(const std::string& peer, std::uint64_t number);
  // The entries of a client that has gone.
  std::vector<AuditEntry> end_all(const std::string& peer);

 private:
  std::map<std::pair<std::string, std::uint64_t>, AuditEntry> open_;
};

}  // namespace es::actors::access
