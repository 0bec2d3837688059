#pragma once
// What a tokenizer has to know about characters. Pure functions; facts in unicode_tables.h.
#include <cstddef>
#include <string>
#include <string_view>

namespace es::store {

inline constexpr char32_t kReplacement = 0xfffd;  // stands for bytes that are no UTF-8

// The character that begins at `at`, which moves behind it. REQUIRES: at < text.size().
// Ill-formed UTF-8 (cut, overlong, surrogates, above U+10FFFF): kReplacement, one byte is passed.
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(char32_t c, std::string& text);

// Byte offset of character `number` of the text; npos when it has fewer. Its end is a place too.
std::size_t byte_offset(std::string_view text, std::uint64_t number);

bool is_space(char32_t c);        // blank, tab, line ends, category Zs
bool is_control(char32_t c);      // categories Cc and Cf that are no space, U+0000, U+FFFD
bool is_punctuation(char32_t c);  // categories P*, and every ASCII sign that is no letter or digit
bool is_ideograph(char32_t c);    // Chinese characters, which are words of their own in BERT

// Lower case without accents: what is left of the character after lower-casing, decomposition and
// removal of marks; 0 when nothing is. Exact for ASCII, U+00C0..U+052F (Latin, Greek, Cyrillic) and
// Armenian capitals excluded) and U+1E00..U+1FFF; marks are removed everywhere; other characters
// stay as they are (BERT would decompose Hangul and lower-case rarer scripts).
char32_t folded(char32_t c);

}  // namespace es::store
