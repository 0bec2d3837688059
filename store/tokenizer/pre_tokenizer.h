#pragma once
// The field "pre_tokenizer" of a tokenizer.json: how a normalised text is divided into the pieces
// that the model encodes one by one.
#include <functional>

#include "store/tokenizer/split.h"

namespace es::store {

// Divides pieces further and changes their texts. Error (failure): as Regex::divide. Immutable and
// thread-safe.
using PreTokenizer = std::function<Status(Pieces&)>;

// The field `key` of `fields`; a missing one divides nothing. Errors (usage): an unknown part, or a
// field of it is not as it must be.
Result<PreTokenizer> read_pre_tokenizer(const Fields& fields, const char* key);

enum class PrependScheme { kAlways, kFirst, kNever };
// The fields "prepend_scheme" and "add_prefix_space" of a Metaspace part.
Result<PrependScheme> read_prepend_scheme(const Fields& fields);
// The field "replacement" of a Metaspace part: one character, by default U+2581.
Result<std::string> read_metaspace(const Fields& fields);

}  // namespace es::store
