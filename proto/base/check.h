#pragma once
// ES_CHECK asserts a condition that cannot be false in a correct program. It is active in every
// build type. A process that stops is better than a wrong result that goes unnoticed, and a stopped
// worker is replaced without any effect on the bits of the result.
#include <string>

namespace es {

// Prints the location, the condition and the detail to stderr, and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& detail);

}  // namespace es

#define ES_CHECK(condition) \
  ((condition) ? void(0) : ::es::check_failed(__FILE__, __LINE__, #condition, {}))
#define ES_CHECK_MSG(condition, detail) \
  ((condition) ? void(0) : ::es::check_failed(__FILE__, __LINE__, #condition, (detail)))
