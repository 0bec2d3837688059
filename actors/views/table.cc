#include "actors/views/table.h"

#include <algorithm>

namespace es::actors {
namespace {

using Row = std::vector<std::string>;

constexpr std::size_t kGap = 2;         // spaces between two cells
constexpr std::size_t kIndent = 4;      // of cells below the others
constexpr std::size_t kNarrowest = 24;  // the last column takes several lines down to this width

// The words of a cell in lines of at most `width`, at least one line.
// Spaces before the first word belong to it.
std::vector<std::string> lines_of(const std::string& cell, std::size_t width) {
  if (cell.size() <= width) return {cell};
  std::vector<std::string> lines{""};
  const std::size_t first_word = cell.find_first_not_of(' ');
  for (std::size_t at = 0; at < cell.size();) {
    const std::size_t end = std::min(cell.find(' ', std::max(at, first_word)), cell.size());
    const std::size_t room = width - std::min(width, lines.back().size());
    if (lines.back().empty())
      lines.back() = cell.substr(at, end - at);
    else if (end - at < room)
      lines.back() += " " + cell.substr(at, end - at);
    else
      lines.push_back(cell.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::size_t longest_word(const std::string& cell) {
  std::size_t longest = 0;
  for (const std::string& word : lines_of(cell, 0)) longest = std::max(longest, word.size());
  return longest;
}

// Bytes and not columns of a terminal: cells behind a text that is not ASCII are not aligned.
std::vector<std::size_t> widths_of(const std::vector<Row>& rows, bool whole_heading) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      const bool whole = whole_heading || &row != &rows.front();
      widths[c] = std::max(widths[c], whole ? row[c].size() : longest_word(row[c]));
    }
  return widths;
}

// Where the cells of a column stand.
struct Place {
  std::size_t line = 0;  // of its row; 0 is the first
  std::size_t begin = 0;
  std::size_t width = 0;
};

std::vector<Place> places_of(const std::vector<std::size_t>& widths, std::size_t columns) {
  std::vector<Place> places;
  std::size_t line = 0, at = 0;
  for (const std::size_t width : widths) {
    const bool is_last = places.size() + 1 == widths.size();
    const std::size_t room = columns - std::min(columns, at);
    if (at > 0 && width > room && !(is_last && room >= kNarrowest)) {
      ++line;
      at = kIndent;
    }
    places.push_back({line, at, std::min(width, std::max(columns, at + 1) - at)});
    at += places.back().width + kGap;
  }
  return places;
}

// A row whose cells have these places, without empty lines below the first one.
std::string row_text(const Row& row, const std::vector<Place>& places) {
  std::string text = row.empty() ? "\n" : "";
  for (std::size_t first = 0; first < row.size();) {
    std::vector<std::string> lines;
    std::size_t c = first;
    for (; c < row.size() && places[c].line == places[first].line; ++c) {
      const std::vector<std::string> cell = lines_of(row[c], places[c].width);
      if (lines.size() < cell.size()) lines.resize(cell.size());
      for (std::size_t i = 0; i < cell.size(); ++i) {
        if (cell[i].empty()) continue;
        lines[i].resize(std::max(lines[i].size(), places[c].begin), ' ');
        lines[i] += cell[i];
      }
    }
    for (const std::string& line : lines)
      if (!line.empty() || first == 0) text += line + "\n";
    first = c;
  }
  return text;
}

}  // namespace

std::string table(const std::vector<Row>& rows, std::size_t columns) {
  std::vector<Place> places = places_of(widths_of(rows, true), columns);
  const auto fits = [&](const Place& place) { return place.line == 0; };
  if (!std::ranges::all_of(places, fits)) places = places_of(widths_of(rows, false), columns);
  std::string text;
  for (const Row& row : rows) text += row_text(row, places);
  return text;
}

std::string wrapped(const std::string& text, std::size_t columns) {
  std::string found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.size() <= columns) {
      found += line + "\n";
      continue;
    }
    const std::vector<std::string> lines = lines_of(line, columns - std::min(columns, kIndent));
    for (std::size_t i = 0; i < lines.size(); ++i)
      found += (i == 0 ? "" : std::string(kIndent, ' ')) + lines[i] + "\n";
  }
  return found;
}

}  // namespace es::actors
