#include "actors/base/program/random_tag.h"

#include <random>

namespace es::actors {

std::string random_tag() {
  static constexpr char kDigits[] = "abcdefghijkmnpqrstuvwxyz23456789";
  constexpr int kLength = 8;
  std::random_device random;
  std::string tag;
  for (int i = 0; i < kLength; ++i) tag += kDigits[random() % 32];
  return tag;
}

}  // namespace es::actors
