#pragma once
// Questions that need no file and that attention can learn to answer.
//
// A vocabulary of V tokens has 4 special ones (padding, unknown, [CLS], [SEP]), K = min(16, (V - 4)
// / 6) kinds of question with one token each, a key token for each kind, answer tokens (half of the
// rest) and filler. The question is one token, of kind k. Each half of the context has one key and,
// behind it, one to three answer tokens; all else is filler. The answer stands behind the key of
// kind k, in one half; the other half's key is of another kind (K > 1). The context has (T - 4) / 2
// (at least 4) to T - 4 tokens.
//
// Drawn by Philox from (half, number of the sample); there is no seed.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

// REQUIRES: data.tokens >= 8, data.vocabulary >= 16.
std::shared_ptr<const SampleSource> synthetic_question_source(const DataSpec& spec);

}  // namespace es::store
