#pragma once
#include <nlohmann/json.hpp>

#include <string>

namespace es::actors::esctl {

// JSON as text, on one line if `indent` is -1. Bytes that are not UTF-8 are replaced, so it never
// fails.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = 2) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace es::actors::esctl
