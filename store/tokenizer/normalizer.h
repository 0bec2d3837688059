#pragma once
// The field "normalizer" of a tokenizer.json: a change of the text before it is divided.
#include <functional>

#include "store/tokenizer/fields.h"

namespace es::store {

// Changes a UTF-8 text in place. Error (failure): as Regex::divide. Immutable and thread-safe.
using Normalizer = std::function<Status(std::string&)>;

// The field `key` of `fields`; a missing one changes nothing. Errors (usage): an unknown part, or a
// field of it is not as it must be.
Result<Normalizer> read_normalizer(const Fields& fields, const char* key);

}  // namespace es::store
