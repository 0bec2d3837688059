#pragma once
// Token files for tests, as llm.c writes them.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/store/dataset/arrays/array_files.h"

namespace es::test {

// The header of 256 int32.
inline std::string token_header(std::int32_t mark, std::int32_t version, std::size_t tokens) {
  std::vector<std::int32_t> numbers(256);
  numbers[0] = mark;
  numbers[1] = version;
  numbers[2] = static_cast<std::int32_t>(tokens);
  return npy_data(numbers);
}

}  // namespace es::test
