#pragma once
// The field "post_processor" of a tokenizer.json: tokens that are put around a sequence.
#include <cstdint>
#include <vector>

#include "store/tokenizer/fields.h"

namespace es::store {

struct SurroundingTokens {
  std::vector<std::uint32_t> before, after;
};

// The field `key` of `fields`; a missing one adds nothing. What a part says about pairs of
// sequences is ignored. Errors (usage): an unknown part, or a field of it is not as it must be; an
// id is `ids_end` or larger.
Result<SurroundingTokens> read_post_processor(const Fields& fields, const char* key,
                                              std::uint32_t ids_end);

}  // namespace es::store
