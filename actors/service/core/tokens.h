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

#include "actors/base/access/core/identity.h"

namespace es::actors::http {

using access::Identity;
using access::Role;

struct Token {
  Identity identity;
  std::string sha256;  // 64 hexadecimal digits, in small letters
};

// Error (usage): a line that is no token, with its number, or a name that occurs twice.
Result<std::vector<Token>> parse_tokens(const std::string& text, const std::string& where);
std::string tokens_text(const std::vector<Token>& tokens);

// The SHA-256 digest in hexadecimal.
std::string sha256_hex(std::string_view text);

// The identity for the header "Authorization: Bearer TOKEN", if there is one. The time of the
// comparison does not depend on how much of a digest is right.
std::optional<Identity> identify(const std::vector<Token>& tokens, std::string_view authorization);

}  // namespace es::actors::http
