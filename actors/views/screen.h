#pragma once
// Text in colours, as plain values, and its form for a terminal. Pure functions.
#include <string>
#include <string_view>
#include <vector>

namespace es::actors {

enum class Style { kPlain, kBold, kDim, kGood, kBusy, kBad };

struct Span {
  std::string text;
  Style style = Style::kPlain;
};
using ScreenLine = std::vector<Span>;
using Screen = std::vector<ScreenLine>;

struct ScreenSize {
  int rows = 24;
  int columns = 80;
};

// Splits text at its ends of lines, and gives a style to states of jobs and nodes and to verdicts:
// to a word of this kind in the first two cells of a line. Cells are separated by two spaces, as in
// table() (render_text.h).
Screen coloured(const std::string& text);

// The line with the sequences for its styles, cut to `columns`. Bytes that a terminal would execute
// become \xNN. A column is a character of UTF-8. REQUIRES: columns >= 0.
std::string ansi_line(const ScreenLine& line, int columns);

// The text without styles; every line ends with a newline.
std::string plain_text(const Screen& screen);

}  // namespace es::actors
