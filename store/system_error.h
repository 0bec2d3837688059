#pragma once
// Converts errors of the system about a file to an Error.
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "proto/base/result.h"

namespace es::store {

// `action` is, for example, "be written".
inline Error system_failure(const std::filesystem::path& path, const std::string& action,
                            int code) {
  return failure(path.string() + ": cannot " + action + ": " +
                 std::generic_category().message(code));
}

// The same for a file that is to be read. The error is `not found` if the file does not exist.
inline Error open_failure(const std::filesystem::path& path, int code) {
  Error error = system_failure(path, "be opened", code);
  if (code == ENOENT) error.kind = ErrorKind::kNotFound;
  return error;
}

}  // namespace es::store
