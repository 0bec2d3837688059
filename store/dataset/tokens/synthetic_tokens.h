#pragma once
// Sequences of tokens that need no file and that a language model can learn to predict.
//
// The first token of a sequence is drawn from the vocabulary of V tokens. A token t is followed by
// (5 t + 1 + 7 j) mod V, where j is 0 with the probability 1/2, 1 with 1/4, and 2 or 3 with 1/8
// each. So the loss of a perfect model tends to the entropy of j, 1.75 ln 2 = 1.213 (perplexity
// 3.364), if these four tokens differ.
//
// Samples are drawn by Philox from (half, number of the sample); there is no seed.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

// REQUIRES: data.vocabulary >= 1.
std::shared_ptr<const SampleSource> synthetic_token_source(const DataSpec& spec);

}  // namespace es::store
