#pragma once
// Checks of text from outside the process: whether it may be printed as it is, and a safe form to
// print otherwise.
#include <string>
#include <string_view>

namespace es {

// Whether the text is well-formed UTF-8: no stray or missing bytes, no overlong form, no surrogate,
// and no value above U+10FFFF.
bool is_utf8(std::string_view text);

// Whether the text is well-formed UTF-8 without characters that a terminal interprets instead of
// showing them: control characters (U+0000 to U+001F, U+007F to U+009F), separators of lines or
// paragraphs, and changes of the writing direction.
bool is_plain(std::string_view text);

// Returns the text with each byte that is_plain() would refuse written as \xNN; plain text is
// returned unchanged. Characters in `kept` are not replaced, e.g. "\n\t" for text of several lines.
std::string escaped(std::string_view text, std::string_view kept = {});

// Number of bytes of the UTF-8 character that begins at text[0]; 0 if no valid and complete
// character begins there. REQUIRES: text is not empty.
std::size_t character_bytes(std::string_view text);

}  // namespace es
