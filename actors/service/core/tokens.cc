#include "actors/service/core/tokens.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

namespace es::actors::http {
namespace {

constexpr std::size_t kHexBytes = std::size_t{2} * crypto_hash_sha256_BYTES;

bool is_digest(std::string_view text) {
  return text.size() == kHexBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<Token> parse_token(const std::string& line) {
  std::istringstream words(line);
  std::string name, role, tenant, digest, rest;
  words >> name >> role >> tenant >> digest;
  if (words >> rest || digest.empty())
    return usage_error("expected NAME ROLE TENANT SHA256, got " +
                       std::to_string(std::count(line.begin(), line.end(), ' ') + 1) + " words");
  if (!access::is_identity_name(name) || (tenant != "-" && !access::is_identity_name(tenant)))
    return usage_error(
        "a name or tenant has 1 to 64 letters, digits, '-', '_' and '.'; a tenant may be \"-\"");
  const auto parsed = access::parse_role(role);
  if (!parsed) return parsed.error();
  if (!is_digest(digest))
    return usage_error("the digest has " + std::to_string(digest.size()) +
                       " characters that should be 64 hexadecimal digits");
  return Token{{name, *parsed, tenant == "-" ? "" : tenant}, digest};
}

}  // namespace

Result<std::vector<Token>> parse_tokens(const std::string& text, const std::string& where) {
  std::vector<Token> tokens;
  std::set<std::string> names;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.front() == '#') continue;
    const std::string at = where + ", line " + std::to_string(number) + ": ";
    auto token = parse_token(line);
    if (!token) return usage_error(at + token.error().message);
    if (!names.insert(token->identity.name).second)
      return usage_error(at + "the name " + token->identity.name + " occurs twice");
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

std::string tokens_text(const std::vector<Token>& tokens) {
  std::string text = "# name role tenant sha256\n";
  for (const Token& t : tokens)
    text += t.identity.name + " " + role_name(t.identity.role) + " " +
            (t.identity.tenant.empty() ? "-" : t.identity.tenant) + " " + t.sha256 + "\n";
  return text;
}

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash;
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size());
  std::array<char, kHexBytes + 1> hex;
  sodium_bin2hex(hex.data(), hex.size(), hash.data(), hash.size());
  return hex.data();
}

std::optional<Identity> identify(const std::vector<Token>& tokens, std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization.starts_with(kScheme)) return {};
  const std::string digest = sha256_hex(authorization.substr(kScheme.size()));
  std::optional<Identity> found;
  for (const Token& token : tokens)
    if (sodium_memcmp(token.sha256.data(), digest.data(), kHexBytes) == 0) found = token.identity;
  return found;
}

}  // namespace es::actors::http
