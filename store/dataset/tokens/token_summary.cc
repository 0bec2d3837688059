#include "store/dataset/tokens/token_summary.h"

#include <algorithm>

#include "store/dataset/arrays/npy_file.h"
#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::uint64_t kReadTokens = 1 << 18;

// Adds the tokens of one shard from `at` on; `ids` is a buffer.
Status add_tokens(const TokenShard& shard, std::uint64_t at, std::uint64_t ids_end,
                  std::vector<std::uint8_t>& bytes, std::vector<std::uint32_t>& ids) {
  const std::uint64_t count = std::min(kReadTokens, shard.tokens() - at);
  ES_RETURN_IF_ERROR(shard.read(at, count, bytes));
  ids.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t id = npy_integer(shard.type(), bytes, i);
    if (id < 0 || static_cast<std::uint64_t>(id) >= ids_end)
      return bad_field(shard.path().string(), "token " + std::to_string(at + i), std::to_string(id),
                       "0 to " + std::to_string(ids_end - 1));
    ids.push_back(static_cast<std::uint32_t>(id));
  }
  return {};
}

}  // namespace

Result<std::optional<TokenSummary>> summarize_tokens(
    std::span<const TokenShard> shards, std::uint64_t ids_end, std::size_t first_count,
    const std::function<bool(std::uint64_t)>& more) {
  TokenSummary summary;
  DigestBuilder digest;
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint32_t> ids;
  for (const TokenShard& shard : shards)
    for (std::uint64_t at = 0; at < shard.tokens(); at += kReadTokens) {
      if (!more(summary.tokens)) return std::optional<TokenSummary>();
      ES_RETURN_IF_ERROR(add_tokens(shard, at, ids_end, bytes, ids));
      summary.tokens += ids.size();
      summary.largest = std::max(summary.largest, std::int64_t{*std::ranges::max_element(ids)});
      digest.add(ids.data(), ids.size() * sizeof ids[0]);
      const std::size_t kept = std::min(ids.size(), first_count - summary.first.size());
      summary.first.insert(summary.first.end(), ids.begin(),
                           ids.begin() + static_cast<std::ptrdiff_t>(kept));
    }
  summary.digest = digest.finish();
  return std::optional(std::move(summary));
}

}  // namespace es::store
