#pragma once
// ES_CHECK: asserts what cannot be false in a correct program. Active in every build type: a wrong
// result that goes on silently is worse than a process that stops, and a stopped worker is
// replaced without changing a bit of the result.
#include <string>

namespace es {

// Prints the location and text to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& detail);

}  // namespace es

#define ES_CHECK(condition) \
  ((condition) ? void(0) : ::es::check_failed(__FILE__, __LINE__, #condition, {}))
#define ES_CHECK_MSG(condition, detail) \
  ((condition) ? void(0) : ::es::check_failed(__FILE__, __LINE__, #condition, (detail)))
