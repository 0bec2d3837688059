#include "actors/views/screen.h"

#include <algorithm>
#include <map>

#include "proto/base/text.h"

namespace es::actors {
namespace {

// Select Graphic Rendition (ECMA-48). The colours are those of the user's palette.
std::string_view begin_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\x1b[1m";
    case Style::kDim:
      return "\x1b[2m";
    case Style::kGood:
      return "\x1b[32m";
    case Style::kBusy:
      return "\x1b[33m";
    case Style::kBad:
      return "\x1b[31m";
  }
  return "";
}

constexpr std::string_view kEnd = "\x1b[0m";

Style style_of(const std::string& word) {
  static const std::map<std::string, Style> styles{
      {"running", Style::kGood},   {"finished", Style::kGood}, {"alive", Style::kGood},
      {"fine", Style::kGood},      {"queued", Style::kBusy},   {"starting", Style::kBusy},
      {"rescaling", Style::kBusy}, {"paused", Style::kBusy},   {"draining", Style::kBusy},
      {"warning", Style::kBusy},   {"failed", Style::kBad},    {"lost", Style::kBad},
      {"wrong", Style::kBad},      {"cancelled", Style::kDim}, {"timed-out", Style::kBad}};
  const auto at = styles.find(word);
  return at == styles.end() ? Style::kPlain : at->second;
}

// The end of the cell that begins at `at`, and the beginning of the next one.
std::pair<std::size_t, std::size_t> end_of_cell(const std::string& line, std::size_t at) {
  const std::size_t end = std::min(line.find("  ", at), line.size());
  return {end, std::min(line.find_first_not_of(' ', end), line.size())};
}

ScreenLine coloured_line(const std::string& line) {
  constexpr int kCells = 2;
  std::size_t at = 0;
  for (int cell = 0; cell < kCells && at < line.size(); ++cell) {
    const auto [end, next] = end_of_cell(line, at);
    const std::string word = line.substr(at, end - at);
    if (const Style style = style_of(word); style != Style::kPlain)
      return {{line.substr(0, at)}, {word, style}, {line.substr(end)}};
    at = next;
  }
  return {{line}};
}

// The beginning of the text with at most `columns` characters, whose number is subtracted.
std::string cut(const std::string& text, int& columns) {
  std::size_t at = 0;
  for (; at < text.size() && columns > 0; --columns)
    at += std::max<std::size_t>(character_bytes(std::string_view(text).substr(at)), 1);
  return text.substr(0, at);
}

}  // namespace

Screen coloured(const std::string& text) {
  Screen screen;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    screen.push_back(coloured_line(text.substr(at, end - at)));
    at = end + 1;
  }
  return screen;
}

std::string ansi_line(const ScreenLine& line, int columns) {
  std::string text;
  for (const Span& span : line) {
    const std::string shown = cut(escaped(span.text), columns);
    if (shown.empty()) continue;
    text += begin_of(span.style);
    text += shown;
    if (span.style != Style::kPlain) text += kEnd;
  }
  return text;
}

std::string plain_text(const Screen& screen) {
  std::string text;
  for (const ScreenLine& line : screen) {
    for (const Span& span : line) text += span.text;
    text += '\n';
  }
  return text;
}

}  // namespace es::actors
