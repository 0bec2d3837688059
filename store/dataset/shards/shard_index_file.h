#pragma once
// A file beside a tar file that says where its samples are, so that the headers need not be read
// each time. `esctl data index` writes it as NAME.tar.index; all numbers are little-endian:
//
//   8 bytes       "ESSHARD1"
//   u64           the bytes of the tar file
//   i64           the time of its last change, in nanoseconds since 1970
//   u64, u64      the digest of its first and its last 1,024 bytes, the high half first
//   u64           the number of samples
//   u64, u32, i32 for each of them: where its image begins, the bytes of the image, the label
//   u64, u64      the digest of everything before
//
// A file that does not fit its tar file, or is damaged, is not used.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "proto/base/digest.h"
#include "store/checkpoint/file_system.h"
#include "store/dataset/shards/shard_files.h"

namespace es::store {

struct ShardSample {
  std::uint64_t image_at = 0;  // in the file of its shard
  std::uint32_t image_bytes = 0;
  std::int32_t label = 0;
  bool operator==(const ShardSample&) const = default;
};
// What a sample costs in the memory of every process that opens the data.
static_assert(sizeof(ShardSample) == 16);

// What is compared with a tar file before its index is used.
struct ShardState {
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;
  Digest edges;  // of the first and the last bytes
  bool operator==(const ShardState&) const = default;
};

// Error (failure): the file cannot be read.
Result<ShardState> shard_state(const DataFile& file);

std::filesystem::path shard_index_path(const ShardFile& shard);

// The content of an index, and the samples of one. nullopt: it is damaged, belongs to another
// state, or names places that are not in the tar file. Pure functions.
std::vector<std::byte> shard_index_bytes(const ShardState& state,
                                         std::span<const ShardSample> samples);
std::optional<std::vector<ShardSample>> parse_shard_index(std::span<const std::uint8_t> content,
                                                          const ShardState& state);

// nullopt: there is no index that can be used.
std::optional<std::vector<ShardSample>> read_shard_index(const ShardFile& shard,
                                                         const ShardState& state);

// Writes the index in place of an older one. Errors: refused (another process writes it, or its
// place is outside of the roots); failure.
Status write_shard_index(FileSystem& files, const ShardFile& shard, const ShardState& state,
                         std::span<const ShardSample> samples);

}  // namespace es::store
