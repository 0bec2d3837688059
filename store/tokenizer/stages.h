#pragma once
// The stages of a tokenizer before and behind its model. Each is a field of tokenizer.json and has
// a source of its own: normalizer.cc, pre_tokenizer.cc, post_processor.cc and token_decoder.cc.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "store/tokenizer/fields.h"
#include "store/tokenizer/split.h"

namespace es::store {

// --- The field "normalizer": a change of the text before it is divided.

// Changes a UTF-8 text in place. Error (failure): as Regex::divide. Immutable and thread-safe.
using Normalizer = std::function<Status(std::string&)>;

// The field `key` of `fields`; a missing one changes nothing. Errors (usage): an unknown part, or a
// field of it is not as it must be.
Result<Normalizer> read_normalizer(const Fields& fields, const char* key);

// --- The field "pre_tokenizer": how a normalised text is divided into the pieces that the model
// encodes one by one.

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

// --- The field "post_processor": tokens that are put around a sequence.

struct SurroundingTokens {
  std::vector<std::uint32_t> before, after;
};

// The field `key` of `fields`; a missing one adds nothing. What a part says about pairs of
// sequences is ignored. Errors (usage): an unknown part, or a field of it is not as it must be; an
// id is `ids_end` or larger.
Result<SurroundingTokens> read_post_processor(const Fields& fields, const char* key,
                                              std::uint32_t ids_end);

// --- The field "decoder": how tokens become text again.

// Changes tokens in place; their concatenation is the text at the end. Immutable and thread-safe.
using TokenDecoder = std::function<Status(std::vector<std::string>&)>;

// The field `key` of `fields`; without it, tokens are separated by spaces. Errors (usage): an
// unknown part, or a field of it is not as it must be.
Result<TokenDecoder> read_decoder(const Fields& fields, const char* key);

}  // namespace es::store
