#include "proto/base/text.h"

#include <cstdint>

namespace es {
namespace {

struct Character {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0 if no character begins here
};

// Decodes the first byte: the number of bytes of the character, and the bits of its value that the
// first byte contains. 0xc0 and 0xc1 could only begin overlong forms, so they are refused here.
Character begin_character(unsigned char first) {
  if (first < 0x80) return {first, 1};
  if (first >= 0xc2 && first < 0xe0) return {first & 0x1fU, 2};
  if (first >= 0xe0 && first < 0xf0) return {first & 0x0fU, 3};
  if (first >= 0xf0 && first < 0xf5) return {first & 0x07U, 4};
  return {};
}

Character next_character(std::string_view text) {
  Character c = begin_character(static_cast<unsigned char>(text.front()));
  if (c.bytes > text.size()) return {};
  for (std::size_t i = 1; i < c.bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return {};
    c.value = c.value << 6 | (byte & 0x3fU);
  }
  // Forms of three and four bytes can be overlong without being recognised by their first byte.
  const bool too_long = (c.bytes == 3 && c.value < 0x800) || (c.bytes == 4 && c.value < 0x10000);
  const bool surrogate = c.value >= 0xd800 && c.value < 0xe000;
  return too_long || surrogate || c.value > 0x10ffff ? Character{} : c;
}

// Characters that a terminal or an editor obeys instead of showing them: control characters, line
// and paragraph separators, and marks that change the direction of text. They could hide or reorder
// what a user reads.
bool is_obeyed(std::uint32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool separator = c == 0x2028 || c == 0x2029;
  const bool direction = c == 0x061c || c == 0x200e || c == 0x200f ||
                         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return control || separator || direction;
}

}  // namespace

std::size_t character_bytes(std::string_view text) {
  return next_character(text).bytes;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character c = next_character(text);
    if (c.bytes == 0) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

bool is_plain(std::string_view text) {
  while (!text.empty()) {
    const Character c = next_character(text);
    if (c.bytes == 0 || is_obeyed(c.value)) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string escaped(std::string_view text, std::string_view kept) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const Character c = next_character(text);
    // A byte that begins no character is escaped alone, and decoding goes on with the next byte.
    const std::size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    const bool stays =
        c.bytes != 0 &&
        (!is_obeyed(c.value) || (bytes == 1 && kept.find(text[0]) != std::string_view::npos));
    for (const char byte : text.substr(0, bytes)) {
      if (stays)
        out += byte;
      else
        out.append("\\x").append({kHex[(byte >> 4) & 15], kHex[byte & 15]});
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace es
