#pragma once
// ES_CHECK_OK asserts that a Status or a Result has no error, where the contract of the call rules
// an error out. Like every check (check.h) it is active in every build type, and it ends the
// process. What can fail in a correct program, such as a write to a disk, is handled or returned
// instead.
#include "proto/base/result.h"

namespace es {

template <class T>
void check_ok(const Result<T>& result, const char* what, const char* file, int line) {
  if (!result.ok()) check_failed(file, line, what, result.error().message);
}

}  // namespace es

// Ends the process with "FILE:LINE: check failed: WHAT: MESSAGE" if `result` is an error. `what` is
// a string literal that says what was relied on, e.g. "the decisions of the policy".
#define ES_CHECK_OK(result, what) ::es::check_ok((result), (what), __FILE__, __LINE__)
