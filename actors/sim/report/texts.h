#pragma once
// Parts of the tables and charts of a report. Pure.
#include <string>
#include <string_view>

namespace es::actors::simulator {

// A text as one field of a CSV table (RFC 4180).
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? "\"\"" : std::string(1, c);
  return field + "\"";
}

// A number with four significant digits.
std::string decimal(double value);
// Text between tags of an SVG or in an attribute.
std::string escaped(const std::string& text);

}  // namespace es::actors::simulator
