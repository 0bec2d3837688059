#pragma once
// A text as one field of a CSV table (RFC 4180). Pure.
#include <string>
#include <string_view>

namespace es::actors::simulator {

inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? "\"\"" : std::string(1, c);
  return field + "\"";
}

}  // namespace es::actors::simulator
