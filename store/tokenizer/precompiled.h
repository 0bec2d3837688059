#pragma once
// The table of a normalizer "Precompiled", as SentencePiece writes it: a double array of keys and
// the texts that replace them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace es::store {

// Immutable and thread-safe.
class CharacterMap {
 public:
  // `bytes` are the size of the double array in bytes (4, little endian), the array, and the texts.
  // nullopt if the sizes do not fit or a text is not UTF-8.
  static std::optional<CharacterMap> parse(std::string_view bytes);

  // Replaces the grapheme clusters of fewer than 6 bytes that have an entry, and otherwise
  // characters. An entry of a prefix counts, and the shortest one wins, as in the tokenizers
  // library.
  std::string apply(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view key) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  // each one ends with a zero byte
};

// The bytes of a Base64 text with padding; nullopt if it is not one.
std::optional<std::string> base64_bytes(std::string_view text);

}  // namespace es::store
