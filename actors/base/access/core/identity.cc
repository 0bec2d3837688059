#include "actors/base/access/core/identity.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace es::actors::access {
namespace {

constexpr std::array kRoles{"view", "submit", "operate", "admin"};
constexpr std::size_t kNameBytesMax = 64;

}  // namespace

const char* role_name(Role role) {
  return kRoles.at(static_cast<std::size_t>(role));
}

Result<Role> parse_role(std::string_view text) {
  for (std::size_t i = 0; i < kRoles.size(); ++i)
    if (text == kRoles.at(i)) return static_cast<Role>(i);
  return usage_error("role \"" + std::string(text) +
                     "\": allowed are view, submit, operate, admin");
}

bool is_identity_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name != "-" &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                  c == '.';
         });
}

}  // namespace es::actors::access
