#pragma once
// Questions that need no file and that an attention model can learn to answer.
//
// A vocabulary of V tokens has 4 special tokens (padding, unknown, [CLS], [SEP]), one token for
// each of K = min(16, (V - 4) / 6) kinds of question, one key token for each kind, answer tokens
// (half of the rest) and filler. The question is one token, of kind k. Each half of the context has
// one key, followed by one to three answer tokens; all other tokens are filler. The answer follows
// the key of kind k, in one of the halves; the key of the other half is of another kind (if K > 1).
// The context has (T - 4) / 2 (at least 4) to T - 4 tokens.
//
// Samples are drawn by Philox from (half, number of the sample); there is no seed.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

// REQUIRES: data.tokens >= 8, data.vocabulary >= 16.
std::shared_ptr<const SampleSource> synthetic_question_source(const DataSpec& spec);

}  // namespace es::store
