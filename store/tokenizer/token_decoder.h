#pragma once
// The field "decoder" of a tokenizer.json: how tokens become text again.
#include <functional>
#include <string>
#include <vector>

#include "store/tokenizer/fields.h"

namespace es::store {

// Changes tokens in place; their concatenation is the text at the end. Immutable and thread-safe.
using TokenDecoder = std::function<Status(std::vector<std::string>&)>;

// The field `key` of `fields`; without it, tokens are separated by spaces. Errors (usage): an
// unknown part, or a field of it is not as it must be.
Result<TokenDecoder> read_decoder(const Fields& fields, const char* key);

}  // namespace es::store
