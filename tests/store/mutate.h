#pragma once
// Seeded damage to a byte string, as a simple fuzzer does it.
#include <algorithm>
#include <random>
#include <string>

namespace es::test {

// One to three of these: flip a bit, set a byte, overwrite four bytes with an extreme number, cut
// the end off, remove a piece, double a piece, append bytes.
inline std::string mutate(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t bound) {
    return bound == 0 ? 0 : static_cast<std::size_t>(random() % bound);
  };
  for (std::size_t left = 1 + below(3); left > 0; --left) {
    const std::size_t at = below(bytes.size());
    const std::size_t length = below(std::min<std::size_t>(bytes.size() - at, 64) + 1);
    switch (below(7)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 2: {
        const char extreme = below(2) == 0 ? '\x00' : '\xff';
        for (std::size_t i = at; i < std::min(at + 4, bytes.size()); ++i) bytes[i] = extreme;
        break;
      }
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.erase(at, length);
        break;
      case 5:
        bytes.insert(at, bytes.substr(at, length));
        break;
      default:
        bytes += std::string(1 + below(8), static_cast<char>(random()));
    }
  }
  return bytes;
}

}  // namespace es::test
