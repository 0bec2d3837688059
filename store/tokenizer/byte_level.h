#pragma once
// The alphabet of byte-level tokenizers: every byte is written as one printable character. Bytes
// that are printable in Latin-1 stand for themselves, and the others follow from U+0100 on.
#include <optional>
#include <string>
#include <string_view>

namespace es::store {

std::string byte_level_text(std::string_view bytes);
// The bytes that the characters stand for; nullopt if a character is not of the alphabet. REQUIRES:
// the text is UTF-8.
std::optional<std::string> byte_level_bytes(std::string_view text);

}  // namespace es::store
