#pragma once
// Keys of the store: a table name and its components, so that pairs that belong together lie
// together and in order. The tables are listed in README.md.
//
// Form: each text component followed by a zero byte; numbers as 8 bytes, big-endian, so that byte
// order is numeric order.
#include <cstdint>
#include <string>
#include <string_view>

namespace es::store {

class KeyBuilder {
 public:
  explicit KeyBuilder(std::string_view table) { text(table); }

  // REQUIRES: no zero byte in `component`.
  KeyBuilder& text(std::string_view component);
  KeyBuilder& number(std::uint64_t component);
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

// The component as KeyBuilder::number writes it. REQUIRES: 8 bytes.
std::uint64_t decode_key_number(std::string_view bytes);

// The first key after all that begin with `prefix`. REQUIRES: a byte of `prefix` is not 0xff.
std::string prefix_end(std::string prefix);

}  // namespace es::store
