#pragma once
// Reads all tokens of shards and says what they are.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "proto/base/digest.h"
#include "store/dataset/tokens/token_shard.h"

namespace es::store {

struct TokenSummary {
  std::uint64_t tokens = 0;
  std::int64_t largest = -1;         // -1 without tokens
  Digest digest;                     // of the ids as little-endian uint32, whatever the files have
  std::vector<std::uint32_t> first;  // the first tokens
};

// Keeps the first `first_count` tokens. `more` is called with the number of tokens that were read,
// and false ends the reading: then the result is empty. Errors: those of TokenShard::read; usage
// for an id that is not between 0 and `ids_end` - 1, with its place.
Result<std::optional<TokenSummary>> summarize_tokens(
    std::span<const TokenShard> shards, std::uint64_t ids_end, std::size_t first_count,
    const std::function<bool(std::uint64_t)>& more);

}  // namespace es::store
