#include "actors/esctl/client/token_choice.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/philox.h"
#include "store/fixed_math.h"

namespace es::actors::esctl {
namespace {

// A number in [0, 1) for each token: a multiple of 2^-53.
double draw(std::uint64_t seed, std::uint64_t index) {
  constexpr std::uint32_t kGeneration = 0x67656e65;  // "gene"
  const PhiloxCounter words = philox4x32_10(
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), kGeneration, 0},
      philox_key(seed));
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// The tokens that may be drawn, in ascending order.
std::vector<std::uint32_t> candidates(std::span<const float> logits, std::uint64_t top_k) {
  std::vector<std::uint32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0U);
  if (top_k == 0 || top_k >= tokens.size()) return tokens;
  const auto larger = [&](std::uint32_t a, std::uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(top_k);
  std::nth_element(tokens.begin(), end - 1, tokens.end(), larger);
  tokens.erase(end, tokens.end());
  // The sums below are in this order, so that they do not depend on how elements were moved.
  std::ranges::sort(tokens);
  return tokens;
}

}  // namespace

std::uint32_t choose_token(std::span<const float> logits, const TokenChoice& choice,
                           std::uint64_t index) {
  ES_CHECK(!logits.empty());
  const auto largest = std::ranges::max_element(logits);
  if (!choice.temperature) return static_cast<std::uint32_t>(largest - logits.begin());
  const std::vector<std::uint32_t> tokens = candidates(logits, choice.top_k);
  std::vector<double> sums;
  double sum = 0.0;
  for (const std::uint32_t token : tokens) {
    // The difference is at most 0, so the largest weight is 1.
    sum += store::fixed_exp((double{logits[token]} - double{*largest}) / *choice.temperature);
    sums.push_back(sum);
  }
  const auto found = std::ranges::upper_bound(sums, draw(choice.seed, index) * sum);
  // The product may be rounded up to the whole sum.
  return tokens[std::min(static_cast<std::size_t>(found - sums.begin()), tokens.size() - 1)];
}

}  // namespace es::actors::esctl
