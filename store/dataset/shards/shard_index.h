#pragma once
// Where the samples of tar files are: the member with the image of every sample, and its label.
//
// The members of a sample have one key, which is the path up to the first dot of the file name, and
// are adjacent. The ending is what follows the dot, in upper or lower case:
//
//   jpg, jpeg, png   the image; exactly one
//   cls              the label, a whole number as text
//   json             without cls: an object whose field "label" is the label
//   txt              without cls and json: as cls
//
// Other endings are ignored, and so are files whose names begin with a dot or have none.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/dataset/shards/shard_index_file.h"

namespace es::store {

inline constexpr std::uint64_t kShardSamplesMax = 200'000'000;

struct Shard {
  ShardFile file;
  ShardState state;       // of the file when it was read
  std::uint64_t end = 0;  // the number of samples in this shard and those before it
};

// One half of a data set. Its memory is some bytes for each sample; images stay in the files.
struct ShardIndex {
  std::vector<Shard> shards;
  std::vector<ShardSample> samples;

  // The shard with the sample. REQUIRES: index < samples.size().
  const Shard& shard_of(std::uint64_t index) const;
  // The samples of the shard with this number.
  std::span<const ShardSample> samples_of(std::size_t shard) const;
};

// Whether errors say the key of a sample. They may only where the reader of the error may read the
// file (field_error.h); otherwise they say its block alone.
enum class KeysInErrors { kHidden, kShown };

// Whether a shard with an index file (shard_index_file.h) that fits it is read by that alone.
enum class IndexFiles { kUsed, kIgnored };

// Reads the headers and labels of all files. Labels are below `classes`. Errors: those of
// open_shard and TarReader; usage, with the file and the block of the first member of a sample: a
// sample without an image or label, or with two; a label that is not allowed; no sample.
Result<ShardIndex> index_shards(const std::vector<ShardFile>& files, std::uint32_t classes,
                                KeysInErrors keys, IndexFiles index_files = IndexFiles::kUsed);

}  // namespace es::store
