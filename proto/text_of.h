#pragma once
// Reads the texts of a message that came from another process. Cap'n Proto only checks their
// bounds. They may contain a zero byte, where a C string would end, bytes that are not UTF-8, and
// characters that a terminal interprets.
#include <capnp/blob.h>

#include <stdexcept>
#include <string>

#include "proto/base/text.h"

namespace es {

inline constexpr std::size_t kNameBytesMax = 4096;

// Returns the whole text, which may have several lines. Throws std::invalid_argument if it contains
// a zero byte or is not UTF-8; `field` names the text in the error. Msg::decode() turns the
// exception into an Error.
inline std::string text_of(capnp::Text::Reader text, const char* field) {
  std::string all(text.begin(), text.size());
  if (all.find('\0') != std::string::npos || !is_utf8(all))
    throw std::invalid_argument(std::string(field) + ": allowed is UTF-8 text without a zero byte");
  return all;
}

// Returns a name or a path. It also throws if the text contains a control character or has more
// than kNameBytesMax bytes.
inline std::string name_of(capnp::Text::Reader text, const char* field) {
  std::string all(text.begin(), text.size());
  if (!is_plain(all) || all.size() > kNameBytesMax)
    throw std::invalid_argument(std::string(field) +
                                ": allowed is UTF-8 text without control characters, at most " +
                                std::to_string(kNameBytesMax) + " bytes");
  return all;
}

// Returns a text for people as one line. What cannot be printed as it is becomes \xNN.
inline std::string line_of(capnp::Text::Reader text) {
  return escaped({text.begin(), text.size()});
}

}  // namespace es
