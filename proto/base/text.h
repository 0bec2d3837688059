#pragma once
// Text that came from elsewhere: whether it may be shown to a person as it is, and what is shown in
// its place when it may not.
#include <string>
#include <string_view>

namespace es {

// Well-formed UTF-8: no stray or missing bytes, no longer form than needed, no surrogate, at most
// U+10FFFF.
bool is_utf8(std::string_view text);

// Well-formed UTF-8 without anything that a terminal obeys instead of showing it: no control
// character (U+0000 to U+001F, U+007F to U+009F), no separator of lines or paragraphs, no change of
// the writing direction.
bool is_plain(std::string_view text);

// The text with each byte of what is_plain() refuses as \xNN; plain text comes back as it is. The
// characters in `kept` stay too, e.g. "\n\t" for text of several lines.
std::string escaped(std::string_view text, std::string_view kept = {});

// Bytes of the UTF-8 character that begins at text[0], 0 when none does. A character that is cut
// off by the end of the text is none. REQUIRES: text is not empty.
std::size_t character_bytes(std::string_view text);

}  // namespace es
