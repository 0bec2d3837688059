#pragma once
// The common form of errors about files: the file (and the line or record in it), the field, and
// what is allowed.
//
// An error of a reader never repeats content of a file. A client names the file, but a head or a
// worker on another machine reads it, possibly with other rights, and the error returns to the
// client and is logged. Only users who may read the file should see its content. An error may state
// only the number of bytes, lines or records of a file, and, when the file is known to be of its
// kind, the counts and sizes that its header declares.
#include <string>

#include "proto/base/result.h"

namespace es::store {

// For a count, a size, or a value that the job itself gives; never for content of a file.
inline Error bad_field(const std::string& where, const std::string& field, const std::string& value,
                       const std::string& allowed) {
  return usage_error(where + ": " + field + " = " + value + ": allowed is " + allowed);
}

// For content of a file: the error says that it is not allowed, without repeating it.
inline Error bad_content(const std::string& where, const std::string& field,
                         const std::string& allowed) {
  return usage_error(where + ": " + field + " is not as it must be: allowed is " + allowed);
}

}  // namespace es::store
