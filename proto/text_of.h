#pragma once
// The texts of a message that came from another process. Cap'n Proto bounds them and nothing else:
// they may hold a zero byte, behind which a C string ends, bytes that are no UTF-8, and what a
// terminal obeys.
#include <capnp/blob.h>

#include <stdexcept>
#include <string>

#include "proto/base/text.h"

namespace es {

inline constexpr std::size_t kNameBytesMax = 4096;

// All of the text, however many lines. Throws std::invalid_argument, which Msg::decode() makes an
// error, when it holds a zero byte or is no UTF-8; `field` names it there.
inline std::string text_of(capnp::Text::Reader text, const char* field) {
  std::string all(text.begin(), text.size());
  if (all.find('\0') != std::string::npos || !is_utf8(all))
    throw std::invalid_argument(std::string(field) + ": allowed is UTF-8 text without a zero byte");
  return all;
}

// A name or a path: also throws when it holds a control character or is too long.
inline std::string name_of(capnp::Text::Reader text, const char* field) {
  std::string all(text.begin(), text.size());
  if (!is_plain(all) || all.size() > kNameBytesMax)
    throw std::invalid_argument(std::string(field) +
                                ": allowed is UTF-8 text without control characters, at most " +
                                std::to_string(kNameBytesMax) + " bytes");
  return all;
}

// A text for people, in one line: what could not be shown as it is has become \xNN.
inline std::string line_of(capnp::Text::Reader text) {
  return escaped({text.begin(), text.size()});
}

}  // namespace es
