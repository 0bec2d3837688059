#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/seed.h"

namespace es::test {

std::uint64_t seed(const char* name) {
  const char* text = std::getenv("ES_SEED");
  const std::uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 0) : 20231112;
  std::printf("seed %s: replay with ES_SEED=%llu\n", name, static_cast<unsigned long long>(value));
  return value;
}

}  // namespace es::test
