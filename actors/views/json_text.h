#pragma once
#include <nlohmann/json.hpp>

#include <string>

#include "proto/base/text.h"

namespace es::actors {

// JSON as text, on one line if `indent` is -1. Bytes that are not UTF-8 are replaced, so it never
// fails. A character that the console would escape makes the text ASCII, because the console's form
// of it is no JSON.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = 2) {
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  std::string text = json.dump(indent, ' ', false, kReplace);
  return escaped(text, "\n") == text ? text : json.dump(indent, ' ', true, kReplace);
}

}  // namespace es::actors
