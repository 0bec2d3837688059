#pragma once
// Tables and texts of a width. Pure functions; every line ends with a newline.
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace es::actors {

// The width of what is not a terminal: lines have any length, as other programs read them.
constexpr std::size_t kAnyColumns = std::numeric_limits<std::size_t>::max();

// Columns are as wide as their longest cell, with two spaces between them and no trailing spaces.
// The first row is the heading. Where a row has no room in `columns`, words stay whole as far as
// possible: headings and the last cells take several lines, and cells that still have no room stand
// below the others, indented.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  std::size_t columns = kAnyColumns);

// The lines of a text, each broken between words into lines of at most `columns`; the later ones
// are indented. A longer word has a line of its own.
std::string wrapped(const std::string& text, std::size_t columns);

}  // namespace es::actors
