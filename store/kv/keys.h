#pragma once
// Keys of the store. A key is the name of a table and its components, so related pairs are adjacent
// and ordered. docs/reference/state-directory.md lists the tables.
//
// Each text component is followed by a zero byte. A number has 8 bytes in big-endian order, so that
// the order of bytes is the order of numbers.
#include <cstdint>
#include <string>
#include <string_view>

namespace es::store {

class KeyBuilder {
 public:
  explicit KeyBuilder(std::string_view table) { text(table); }

  // REQUIRES: `component` contains no zero byte.
  KeyBuilder& text(std::string_view component);
  KeyBuilder& number(std::uint64_t component);
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

// Decodes a component that KeyBuilder::number wrote. REQUIRES: 8 bytes.
std::uint64_t decode_key_number(std::string_view bytes);

// The first key after all keys that begin with `prefix`. REQUIRES: a byte of `prefix` is not 0xff.
std::string prefix_end(std::string prefix);

}  // namespace es::store
