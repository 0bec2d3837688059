#include "store/kv/keys.h"

#include "proto/base/check.h"

namespace es::store {

KeyBuilder& KeyBuilder::text(std::string_view component) {
  // A zero byte ends a component. With one inside, two different lists of components could give one
  // key.
  ES_CHECK_MSG(component.find('\0') == std::string_view::npos, std::string(component));
  key_.append(component);
  key_.push_back('\0');
  return *this;
}

KeyBuilder& KeyBuilder::number(std::uint64_t component) {
  // Big-endian, so that comparing bytes compares numbers, and a scan visits versions in ascending
  // order.
  for (int shift = 56; shift >= 0; shift -= 8)
    key_.push_back(static_cast<char>(component >> shift));
  return *this;
}

std::uint64_t decode_key_number(std::string_view bytes) {
  ES_CHECK(bytes.size() == 8);
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::string prefix_end(std::string prefix) {
  // 0xff cannot be incremented, so the byte before it is: the end of "a\xff" is "b".
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  ES_CHECK(!prefix.empty());
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

}  // namespace es::store
