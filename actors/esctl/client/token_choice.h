#pragma once
// How the next token follows from the logits of a language model. Pure functions, with the same
// result on every machine.
#include <cstdint>
#include <optional>
#include <span>

namespace es::actors::esctl {

struct TokenChoice {
  // Nothing: the token with the largest logit, the first of equal ones. Otherwise tokens are drawn
  // with probabilities proportional to exp(logit / temperature); above 0.
  std::optional<double> temperature;
  std::uint64_t top_k = 0;  // only the tokens with the k largest logits are drawn; 0: all
  std::uint64_t seed = 1;
};

// Returns the token at `index`, which selects the random numbers. Of equal logits the lower token
// is the larger one. REQUIRES: `logits` is not empty, and all are finite.
std::uint32_t choose_token(std::span<const float> logits, const TokenChoice& choice,
                           std::uint64_t index);

}  // namespace es::actors::esctl
