#include "store/dataset/questions/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "store/dataset/questions/unicode_tables.h"

namespace es::store {
namespace {

bool contains(std::span<const CodeRange> ranges, char32_t c) {
  const auto at = std::ranges::lower_bound(ranges, c, {}, &CodeRange::high);
  return at != ranges.end() && at->low <= c;
}

// Number of bytes of the character that begins with `first`; 0 if no character does.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

}  // namespace

char32_t next_character(std::string_view text, std::size_t& at) {
  // Smallest value for each length; a smaller one is overlong.
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = length_of(first);
  const std::size_t begin = at++;
  if (length == 1) return first;
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

std::size_t byte_offset(std::string_view text, std::uint64_t number) {
  std::size_t at = 0;
  for (; number > 0 && at < text.size(); --number) next_character(text, at);
  return number == 0 ? at : std::string_view::npos;
}

bool is_space(char32_t c) {
  return c == '\t' || c == '\n' || c == '\r' || contains(kSpaces, c);
}

bool is_control(char32_t c) {
  return c == kReplacement || (!is_space(c) && contains(kControls, c));
}

bool is_punctuation(char32_t c) {
  if (c >= 0x80) return contains(kPunctuation, c);
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return c > ' ' && c < 0x7f && !letter && !(c >= '0' && c <= '9');
}

bool is_ideograph(char32_t c) {
  static constexpr CodeRange kIdeographs[] = {
      {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
      {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  return contains(kIdeographs, c);
}

char32_t folded(char32_t c) {
  if (c < kFoldLow) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  if (c - kFoldLow < std::size(kFoldedLow)) return kFoldedLow[c - kFoldLow];
  if (c >= kFoldHigh && c - kFoldHigh < std::size(kFoldedHigh)) return kFoldedHigh[c - kFoldHigh];
  return contains(kMarks, c) ? 0 : c;
}

}  // namespace es::store
