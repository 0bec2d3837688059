#pragma once
// How every reader words what is wrong with a file: the file (and the line or record in it), the
// field, and what is allowed.
//
// No error of a reader repeats what a file holds. A client names the file, but whoever reads it may
// be a head or a worker on another machine, with other rights, and the error goes back to the
// client over the wire and into logs. What stands at the named place is for those who may read the
// file. Only this may be said of a file's content: how many bytes, lines or records there are, and,
// once the file is known to be of its kind, the counts and sizes that its header declares.
#include <string>

#include "proto/base/result.h"

namespace es::store {

// Of a count, a size, or a value that the job itself gives: never of a file's content.
inline Error bad_field(const std::string& where, const std::string& field, const std::string& value,
                       const std::string& allowed) {
  return usage_error(where + ": " + field + " = " + value + ": allowed is " + allowed);
}

// Of content: says that what stands there is not as allowed, and not what it is.
inline Error bad_content(const std::string& where, const std::string& field,
                         const std::string& allowed) {
  return usage_error(where + ": " + field + " is not as it must be: allowed is " + allowed);
}

}  // namespace es::store
