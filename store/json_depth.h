#pragma once
// Bounds the depth of a JSON text before it is parsed. A parsed tree needs memory for each level,
// and a program that visits the tree recurses once for each level.
#include <algorithm>
#include <string_view>

namespace es::store {

// The largest number of brackets and braces that are open at the same time, outside of strings. A
// text that is not JSON is counted as if it were; its parser refuses it.
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
