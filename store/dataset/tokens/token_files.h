#pragma once
// The files of a directory with tokens (tokens_source.cc), in their order.
#include <filesystem>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

// `eval` may be empty.
struct TokenFiles {
  std::vector<std::filesystem::path> train, eval;
};

// Errors: not found (there are no tokens); refused (outside of the roots); usage (no shard, or too
// many of them).
Result<TokenFiles> token_files(const std::filesystem::path& directory);

}  // namespace es::store
