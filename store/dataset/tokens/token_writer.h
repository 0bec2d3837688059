#pragma once
// TokenWriter writes tokens into numbered shards with the header of llm.c (token_shard.h), so that
// a job needs no data.token_type. It keeps one shard in memory. Not thread-safe.
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "store/checkpoint/file_system.h"

namespace es::store {

inline constexpr std::uint64_t kShardTokensMax = std::uint64_t{1} << 28;

class TokenWriter {
 public:
  // The shards are DIRECTORY/000000.bin, 000001.bin, ...; all but the last one have `shard_tokens`
  // tokens. `wide` writes uint32, otherwise uint16. The directory is made for the first shard.
  // REQUIRES: `files` lives as long as the writer; 1 <= shard_tokens <= kShardTokensMax.
  TokenWriter(FileSystem& files, std::filesystem::path directory, bool wide,
              std::uint64_t shard_tokens)
      : files_(files), directory_(std::move(directory)), wide_(wide), shard_tokens_(shard_tokens) {}

  // REQUIRES: without `wide` ids are below 65536. Error (failure): a shard cannot be written.
  Status add(std::span<const std::uint32_t> ids);
  // Writes the last shard and forces all of them to the disk. Nothing may be added afterwards.
  Status finish();

  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t shards() const { return shards_; }

 private:
  Status write_shard();

  FileSystem& files_;
  std::filesystem::path directory_;
  bool wide_;
  std::uint64_t shard_tokens_;
  std::vector<std::uint32_t> waiting_;  // the tokens of the next shard
  std::uint64_t tokens_ = 0, shards_ = 0;
};

}  // namespace es::store
