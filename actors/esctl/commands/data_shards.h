#pragma once
// What `esctl data inspect` shows of a directory of tar files for data.kind = "webdataset".
#include <string>

#include "proto/base/result.h"

namespace es::actors::esctl {

// Reads the headers and labels of all shards, and returns the text or the JSON object. Errors:
// those of shard_files and index_shards, with the keys of samples; usage (an index file that fits
// its shard names other samples).
Result<std::string> inspect_shards(const std::string& directory, bool json);

// Writes an index file beside every shard (shard_index_file.h), and returns the same as
// inspect_shards. Errors: those, and those of write_shard_index.
Result<std::string> write_shard_indexes(const std::string& directory, bool json);

}  // namespace es::actors::esctl
