#pragma once
// A causal language model as a program that computes one token of each text, from the keys and
// values of the tokens before it.
//
// The place of a token in its text is an axis of most values: the token axis. In the new program it
// has the extent 1. Constants and parameters with a row for each place are read at the place of the
// token. Attention is the only node in which tokens meet: its keys and values are those of the
// cache, with those of the new token at its place, and the keys behind it are not seen. So every
// element is computed by the same operations in the same order as in the whole model, and has the
// same bits at level D2 (docs/ARITHMETIC.md, "Batches and padding").
#include <cstdint>
#include <vector>

#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// The keys or the values of one attention: [samples,heads,length,width].
struct CachedValue {
  std::int64_t heads = 0, width = 0;
};

struct TokenProgram {
  // The model with the cached values as its outputs behind its own.
  ModelProgram whole;
  std::size_t whole_outputs = 0;  // its own outputs; `whole` has caches.size() more
  // Inputs: the token i32 [samples,1], its place i32 [samples], and for each cached value
  // f32 [samples,heads * length,width]. Outputs: logits [samples,1,vocabulary], and for each cached
  // value that of the token, f32 [samples,heads,1,width]. The parameters are those of the model.
  ModelProgram token;
  std::vector<CachedValue> caches;
  std::int64_t length = 0;  // tokens of a text, at most
};

// Derives the program. ids is the input with the tokens, i32 [samples,length], and `logits` the
// output [samples,length,vocabulary]. REQUIRES: check_program() accepts the program. Error (usage):
// what the derivation does not know, naming the node; the program may be correct then, but the
// whole model must be computed for every token.
Result<TokenProgram> token_program(const ModelProgram& program, std::size_t ids,
                                   std::size_t logits);

}  // namespace es::gpu
