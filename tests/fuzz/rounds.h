#pragma once
// The number of mutations of each input of a fuzz test: ES_FUZZ_ROUNDS, or a small default.
#include <cstdlib>

namespace es::test {

inline int fuzz_rounds(int usual) {
  const char* text = std::getenv("ES_FUZZ_ROUNDS");
  return text != nullptr ? std::atoi(text) : usual;
}

}  // namespace es::test
