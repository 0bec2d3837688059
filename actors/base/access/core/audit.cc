#include "actors/base/access/core/audit.h"

#include <nlohmann/json.hpp>

namespace es::actors::access {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

// "alice submit vision": the owner of a key, for people.
std::string rights_text(const KeyOwner& owner) {
  if (!owner.client) return owner.name + " node";
  std::string text = owner.name + " " + role_name(owner.client->role);
  if (owner.node) text += " node";
  return owner.client->tenant.empty() ? text : text + " " + owner.client->tenant;
}

}  // namespace

std::string audit_line(const AuditEntry& entry) {
  const Json json{{"unix_ms", entry.unix_ms},
                  {"who", or_null(entry.who)},
                  {"role", or_null(entry.role)},
                  {"from", entry.from},
                  {"method", entry.method},
                  {"path", entry.path},
                  {"status", entry.status ? Json(*entry.status) : Json()}};
  // In ASCII no terminal interprets what a client has sent.
  return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::vector<AuditEntry> key_changes(const AuthorizedKeys& before, const AuthorizedKeys& now,
                                    std::uint64_t unix_ms) {
  std::vector<AuditEntry> entries;
  const auto add = [&](const char* what, const KeyOwner& owner) {
    entries.push_back({.unix_ms = unix_ms,
                       .who = {},
                       .role = {},
                       .from = "authorized",
                       .method = what,
                       .path = rights_text(owner),
                       .status = 200});
  };
  for (const auto& [key, owner] : before)
    if (!now.contains(key)) add("RevokeKey", owner);
  for (const auto& [key, owner] : now) {
    const auto older = before.find(key);
    if (older == before.end())
      add("AuthorizeKey", owner);
    else if (older->second != owner)
      add("ChangeKey", owner);
  }
  return entries;
}

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return 400;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kRefused:
      return 409;
    default:
      return 500;
  }
}

std::optional<AuditEntry> OpenRequests::begin(const std::string& peer, std::uint64_t number,
                                              AuditEntry entry) {
  std::optional<AuditEntry> older = end(peer, number);
  open_.emplace(std::pair(peer, number), std::move(entry));
  return older;
}

std::optional<AuditEntry> OpenRequests::end(const std::string& peer, std::uint64_t number) {
  auto node = open_.extract({peer, number});
  if (node.empty()) return {};
  return std::move(node.mapped());
}

std::vector<AuditEntry> OpenRequests::end_all(const std::string& peer) {
  std::vector<AuditEntry> entries;
  for (auto at = open_.lower_bound({peer, 0}); at != open_.end() && at->first.first == peer;
       at = open_.erase(at))
    entries.push_back(std::move(at->second));
  return entries;
}

}  // namespace es::actors::access
