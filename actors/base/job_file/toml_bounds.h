#pragma once
// Limits for a TOML text, which are checked before it is parsed. The parser and its tree recurse
// once for each level, so 50,000 levels would overflow the stack. A byte that TOML does not allow
// makes the parser end the text early. The limits apply to every job text, whatever its source.
#include <cstddef>
#include <string>
#include <string_view>

#include "proto/base/result.h"

namespace es::actors {

// A job text has few levels of tables and some dozen lines; stages, groups of parameters and long
// paths need most bytes.
inline constexpr std::size_t kTomlBytesMax = std::size_t{256} << 10;
// The largest number of open brackets and braces, and of names in one dotted key or header.
inline constexpr std::size_t kTomlDepthMax = 16;

// Error (usage): the text exceeds a limit, is not UTF-8, or contains a control character other than
// tab and ends of lines. The message contains `where`, the line, the fault and what is allowed.
Status check_toml_text(std::string_view text, const std::string& where);

}  // namespace es::actors
