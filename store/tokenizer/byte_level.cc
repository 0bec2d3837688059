#include "store/tokenizer/byte_level.h"
#include "store/tokenizer/utf8.h"

#include <array>
#include <unordered_map>

namespace es::store {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct ByteAlphabet {
  std::array<std::string, 256> text;
  std::unordered_map<char32_t, char> byte;

  ByteAlphabet() {
    char32_t next = 0x100;
    for (unsigned b = 0; b < text.size(); ++b) {
      const char32_t c = stands_for_itself(b) ? char32_t{b} : next++;
      append_character(c, text[b]);
      byte.emplace(c, static_cast<char>(b));
    }
  }
};

const ByteAlphabet& alphabet() {
  static const ByteAlphabet all;
  return all;
}

}  // namespace

std::string byte_level_text(std::string_view bytes) {
  const ByteAlphabet& all = alphabet();
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) out += all.text[static_cast<unsigned char>(c)];
  return out;
}

std::optional<std::string> byte_level_bytes(std::string_view text) {
  const ByteAlphabet& all = alphabet();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = all.byte.find(next_character(text, at));
    if (found == all.byte.end()) return std::nullopt;
    out += found->second;
  }
  return out;
}

}  // namespace es::store
