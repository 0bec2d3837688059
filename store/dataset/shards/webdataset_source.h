#pragma once
// Samples of classification from tar files (shard_files.h, shard_index.h), without unpacking them.
// A worker reads an image from its file when it needs it.
#include "store/dataset/sample_source.h"

namespace es::store {

// Errors: those of shard_files, index_shards and AugmentedImage.
Result<std::shared_ptr<const SampleSource>> webdataset_source(const JobSpec& spec);

}  // namespace es::store
