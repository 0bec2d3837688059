#pragma once
// How every reader words what is wrong with a file: the file (and the line or record in it), the
// field, the value that was found, and what is allowed.
#include <string>

#include "proto/base/result.h"

namespace es::store {

inline Error bad_field(const std::string& where, const std::string& field, const std::string& value,
                       const std::string& allowed) {
  return usage_error(where + ": " + field + " = " + value + ": allowed is " + allowed);
}

// Text of a file as it may stand in a message: short, in quotes, without control characters.
inline std::string shown(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, kShown))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (text.size() > kShown ? "...\"" : "\"");
}

}  // namespace es::store
