#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

// Number of bytes of the character that begins with `first`, which is no ASCII character; 0 if no
// character does.
std::size_t length_of(unsigned char first) {
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

}  // namespace

char32_t next_character(std::string_view text, std::size_t& at) {
  // Smallest value for each length; a smaller one is overlong.
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t begin = at++;
  if (first < 0x80) return first;
  const std::size_t length = length_of(first);
  if (length == 0 || text.size() - begin < length) return kReplacement;
  char32_t c = first & (0x7f >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[begin + i]);
    if ((byte & 0xc0) != 0x80) return kReplacement;
    c = c << 6 | (byte & 0x3f);
  }
  if (c < kSmallest[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return kReplacement;
  at = begin + length;
  return c;
}

void append_character(char32_t c, std::string& text) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  const auto rest = [&](int shift) { add(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) return add(c);
  if (c < 0x800) return add(0xc0 | c >> 6), rest(0);
  if (c < 0x10000) return add(0xe0 | c >> 12), rest(6), rest(0);
  add(0xf0 | c >> 18), rest(12), rest(6), rest(0);
}

std::optional<std::size_t> first_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    // A well-formed U+FFFD has three bytes; in place of a bad byte the function moves by one.
    if (next_character(text, at) == kReplacement && at == begin + 1) return begin;
  }
  return std::nullopt;
}

std::size_t byte_offset(std::string_view text, std::uint64_t number) {
  std::size_t at = 0;
  for (; number > 0 && at < text.size(); --number) next_character(text, at);
  return number == 0 ? at : std::string_view::npos;
}

}  // namespace es::store
