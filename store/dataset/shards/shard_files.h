#pragma once
// The tar files of a data set for data.kind = "webdataset":
//
//   DIR/train/*.tar, DIR/eval/*.tar    in the order of the bytes of their names
//   DIR/train.txt, DIR/eval.txt        or lists, with the path of a tar file in each line; it is
//                                      relative to DIR unless it is absolute
//
// A half has a list or a directory. Without one for the evaluation there is none.
#include <filesystem>
#include <string>
#include <vector>

#include "store/dataset/data_file.h"

namespace es::store {

inline constexpr std::size_t kShardsMax = 100'000;

struct ShardFile {
  std::filesystem::path path;
  std::string name;  // in errors: the path, or "LIST: line N" if the path is a line of a list
};

struct ShardFiles {
  std::vector<ShardFile> train, eval;  // `train` has at least one
};

// Whether a directory has such files or lists for the training. Compressed tar files count, so that
// they are refused as what they are.
bool has_shards(const std::filesystem::path& directory);

// Errors: refused (outside of the roots); not found (there is nothing for the training); usage (a
// compressed tar file; a half without or with too many files; both a list and a directory). The
// files are not opened.
Result<ShardFiles> shard_files(const std::filesystem::path& directory);

// Errors: not found, refused, failure, with the name of the shard.
Result<DataFile> open_shard(const ShardFile& shard);

}  // namespace es::store
