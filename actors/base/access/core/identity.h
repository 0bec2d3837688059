#pragma once
// Who sends a request, and what this person or program may do. A head knows it by the token of an
// HTTP request (actors/service/core/tokens.h) or by the CURVE key of a connection.
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "proto/base/result.h"

namespace es::actors::access {

// Each role may do what the roles before it may do.
//   view     see jobs and nodes
//   submit   submit jobs, and change jobs
//   operate  make claims, clear devices
//   admin    end the head
enum class Role { kView, kSubmit, kOperate, kAdmin };
const char* role_name(Role role);
// Error (usage): the text is no role. It names all roles.
Result<Role> parse_role(std::string_view text);

// Names of identities and tenants have 1 to 64 letters, digits, '-', '_' and '.'.
bool is_identity_name(std::string_view name);

struct Identity {
  std::string name;
  Role role = Role::kView;
  // Sees and changes only jobs of this tenant, and submits for it only; empty: not restricted.
  std::string tenant;
  bool may(Role needed) const { return role >= needed; }
  bool may_see(const std::string& tenant_of_job) const {
    return tenant.empty() || tenant == tenant_of_job;
  }
  bool operator==(const Identity&) const = default;
};

// The owner of a CURVE key.
struct KeyOwner {
  std::string name;                // of its file in the directory of authorized keys
  std::optional<Identity> client;  // what its clients may do; none: it cannot act as a client
  bool node = false;               // nodes and workers may connect with it
  bool operator==(const KeyOwner&) const = default;
};

// The keys that may connect, as Z85 texts.
using AuthorizedKeys = std::map<std::string, KeyOwner>;

// Who sends on a connection. It changes when the file of the key changes.
struct Sender {
  std::optional<KeyOwner> owner;  // none: a connection without keys
  std::string address;            // of the other machine; empty for a local socket
};

}  // namespace es::actors::access
