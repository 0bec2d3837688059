#pragma once
// Characters and their bytes in UTF-8. Pure functions.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace es::store {

inline constexpr char32_t kReplacement = 0xfffd;  // replaces bytes that are not UTF-8

// Returns the character that begins at `at` and moves `at` behind it. For ill-formed UTF-8 (cut,
// overlong, surrogates, above U+10FFFF) it returns kReplacement and moves by one byte. REQUIRES: at
// < text.size().
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(char32_t c, std::string& text);

// The byte offset of the first byte that is not UTF-8; nullopt for a well-formed text.
std::optional<std::size_t> first_bad_utf8(std::string_view text);

// Byte offset of character `number` of the text; npos if the text has fewer characters. The end of
// the text counts as a place too.
std::size_t byte_offset(std::string_view text, std::uint64_t number);

}  // namespace es::store
