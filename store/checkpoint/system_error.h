#pragma once
// What the system says of a file, as an Error.
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "proto/base/result.h"

namespace es::store {

// `action`: "be written".
inline Error system_failure(const std::filesystem::path& path, const std::string& action,
                            int code) {
  return failure(path.string() + ": cannot " + action + ": " +
                 std::generic_category().message(code));
}

// The same, of a file that is to be read: not found when there is none.
inline Error open_failure(const std::filesystem::path& path, int code) {
  Error error = system_failure(path, "be opened", code);
  if (code == ENOENT) error.kind = ErrorKind::kNotFound;
  return error;
}

}  // namespace es::store
