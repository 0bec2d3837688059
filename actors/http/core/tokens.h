#pragma once
// The tokens of the HTTP service: who may do what.
//
// A token file has one line for each token: its name, its role, its tenant ("-" for none) and the
// SHA-256 digest of the token in hexadecimal. Empty lines and lines that begin with '#' do not
// count. The tokens themselves are not stored, so a stolen file gives no access.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es::actors::http {

// Each role may do what the roles before it may do.
//   view     see jobs and nodes
//   submit   submit jobs, and change jobs of the own tenant
//   operate  change every job, make claims, clear devices
//   admin    end the head
enum class Role { kView, kSubmit, kOperate, kAdmin };
const char* role_name(Role role);
// Error (usage): the text is no role. It names all roles.
Result<Role> parse_role(std::string_view text);

// Who sent a request.
struct Identity {
  std::string name;
  Role role = Role::kView;
  // Sees and changes only jobs of this tenant, and submits for it only; empty: not restricted.
  std::string tenant;
  bool may(Role needed) const { return role >= needed; }
  bool may_see(const std::string& tenant_of_job) const {
    return tenant.empty() || tenant == tenant_of_job;
  }
};

struct Token {
  Identity identity;
  std::string sha256;  // 64 hexadecimal digits, in small letters
};

// Names of tokens and tenants have 1 to 64 letters, digits, '-', '_' and '.'.
bool is_token_name(std::string_view name);

// Error (usage): a line that is no token, with its number, or a name that occurs twice.
Result<std::vector<Token>> parse_tokens(const std::string& text, const std::string& where);
std::string tokens_text(const std::vector<Token>& tokens);

// The SHA-256 digest in hexadecimal.
std::string sha256_hex(std::string_view text);

// The identity for the header "Authorization: Bearer TOKEN", if there is one. The time of the
// comparison does not depend on how much of a digest is right.
std::optional<Identity> identify(const std::vector<Token>& tokens, std::string_view authorization);

}  // namespace es::actors::http
