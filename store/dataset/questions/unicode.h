#pragma once
// Properties of characters for a tokenizer. Pure functions; the data are in unicode_tables.h.
#include <cstddef>
#include <string>
#include <string_view>

namespace es::store {

inline constexpr char32_t kReplacement = 0xfffd;  // replaces bytes that are not UTF-8

// Returns the character that begins at `at` and moves `at` behind it. For ill-formed UTF-8 (cut,
// overlong, surrogates, above U+10FFFF) it returns kReplacement and moves by one byte. REQUIRES: at
// < text.size().
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(char32_t c, std::string& text);

// Byte offset of character `number` of the text; npos if the text has fewer characters. The end of
// the text counts as a place too.
std::size_t byte_offset(std::string_view text, std::uint64_t number);

bool is_space(char32_t c);        // blank, tab, line ends, category Zs
bool is_control(char32_t c);      // categories Cc and Cf except spaces, U+0000, U+FFFD
bool is_punctuation(char32_t c);  // categories P*, and every ASCII sign except letters and digits
bool is_ideograph(char32_t c);    // Chinese characters, which BERT treats as words

// Lower case without accents: the rest of the character after conversion to lower case,
// decomposition and removal of marks; 0 if nothing remains. Exact for ASCII, for U+00C0..U+052F
// (Latin, Greek and Cyrillic; Armenian capitals are excluded) and for U+1E00..U+1FFF. Marks are
// removed everywhere. Other characters are not changed (BERT would decompose Hangul and convert
// rarer scripts to lower case).
char32_t folded(char32_t c);

}  // namespace es::store
