#pragma once
// How often a fuzz test mutates its input: ES_FUZZ_ROUNDS, else a number for every day.
#include <cstdlib>

namespace es::test {

inline int fuzz_rounds(int usual) {
  const char* text = std::getenv("ES_FUZZ_ROUNDS");
  return text != nullptr ? std::atoi(text) : usual;
}

}  // namespace es::test
