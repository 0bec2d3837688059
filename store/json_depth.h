#pragma once
// Bounds the depth of a JSON text before it is parsed: a tree costs memory for each level, and
// whoever walks it descends once for each.
#include <algorithm>
#include <string_view>

namespace es::store {

// The most brackets and braces that are open at once, outside of strings. A text that is no JSON is
// counted as far as it looks like it; its parser refuses it.
inline int json_depth(std::string_view text) {
  int open = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string && c == '\\') {
      ++at;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      deepest = std::max(deepest, ++open);
    } else if (!in_string && (c == ']' || c == '}')) {
      --open;
    }
  }
  return deepest;
}

}  // namespace es::store
