#pragma once
// What a TOML text may be before it is parsed. The parser and its tree descend once for each level,
// so that 50,000 levels would take more stack than a thread has; bytes that TOML does not allow end
// its text early. Every text of a job is held to this, from wherever it comes.
#include <cstddef>
#include <string>
#include <string_view>

#include "proto/base/result.h"

namespace es::actors {

// A job has three tables' depth and some dozen lines; stages and long paths take most of the room.
inline constexpr std::size_t kTomlBytesMax = std::size_t{256} << 10;
// Brackets and braces that are open at once, and names in one dotted key or header.
inline constexpr std::size_t kTomlDepthMax = 16;

// Error (usage): more bytes or deeper than that, no UTF-8, or a control character other than tab
// and the ends of lines; names `where`, the line, what was found and what is allowed.
Status check_toml_text(std::string_view text, const std::string& where);

}  // namespace es::actors
