#include "store/tokenizer/precompiled.h"
#include "store/tokenizer/characters.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

constexpr std::size_t kGraphemeBytesEnd = 6;

// The fields of a unit of a double array.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) == 1;
}
std::uint32_t leaf_value(std::uint32_t unit) {
  return unit & 0x7fffffff;
}
std::uint32_t unit_label(std::uint32_t unit) {
  return unit & 0x800000ff;
}
std::uint32_t unit_offset(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200) >> 6);
}

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

}  // namespace

std::optional<CharacterMap> CharacterMap::parse(std::string_view bytes) {
  if (bytes.size() < 4) return std::nullopt;
  const std::size_t array_bytes = u32_at(bytes, 0);
  if (array_bytes % 4 != 0 || array_bytes == 0 || array_bytes > bytes.size() - 4)
    return std::nullopt;
  CharacterMap map;
  for (std::size_t at = 4; at < 4 + array_bytes; at += 4) map.units_.push_back(u32_at(bytes, at));
  map.texts_ = bytes.substr(4 + array_bytes);
  if (first_bad_utf8(map.texts_)) return std::nullopt;
  return map;
}

std::optional<std::string_view> CharacterMap::replacement(std::string_view key) const {
  std::size_t at = unit_offset(units_[0]);
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || unit_label(units_[at]) != byte) return std::nullopt;
    const std::uint32_t unit = units_[at];
    at ^= unit_offset(unit);
    if (!has_leaf(unit)) continue;
    if (at >= units_.size()) return std::nullopt;
    const std::size_t begin = leaf_value(units_[at]);
    // A wrong table could point into the middle of a character.
    if (begin > texts_.size() || (begin < texts_.size() && (texts_[begin] & 0xc0) == 0x80))
      return std::nullopt;
    const std::string_view rest = std::string_view(texts_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

std::string CharacterMap::apply(std::string_view text) const {
  std::string out;
  std::size_t begin = 0;
  for (const std::size_t end : grapheme_ends(text)) {
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() < kGraphemeBytesEnd)
      if (const auto whole = replacement(cluster)) {
        out += *whole;
        continue;
      }
    for (std::size_t at = 0; at < cluster.size();) {
      const std::size_t first = at;
      next_character(cluster, at);
      const std::string_view character = cluster.substr(first, at - first);
      out += replacement(character).value_or(character);
    }
  }
  return out;
}

std::optional<std::string> base64_bytes(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string out;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i >= text.size() - padding;
    const std::size_t digit = is_padding ? 0 : kDigits.find(text[i]);
    if (digit == kDigits.npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(bits >> shift & 0xff);
    bits = 0;
  }
  out.resize(out.size() - padding);
  return out;
}

}  // namespace es::store
