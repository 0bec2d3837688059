#include "store/dataset/tokens/token_files.h"

#include <string>
#include <system_error>

#include "store/dataset/sorted_names.h"
#include "store/dataset/tokens/token_shard.h"
#include "store/field_error.h"
#include "store/path_roots.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTokenShardsMax = 100'000;

Result<std::vector<fs::path>> shards_in(const fs::path& directory) {
  const auto names = sorted_names(directory, [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return is_token_shard(entry.path()) && entry.is_regular_file(ignored);
  });
  if (!names) return names.error();
  if (names->empty() || names->size() > kTokenShardsMax)
    return bad_field(directory.string(), "number of files *.bin and *.npy",
                     std::to_string(names->size()), "1 to " + std::to_string(kTokenShardsMax));
  std::vector<fs::path> files;
  for (const std::string& name : *names) files.push_back(directory / name);
  return files;
}

}  // namespace

Result<TokenFiles> token_files(const fs::path& root) {
  for (const char* place : {"train", "eval", "train.bin", "val.bin"})
    ES_RETURN_IF_ERROR(check_place(RootKind::kData, root / place));
  std::error_code code;
  TokenFiles files;
  if (!fs::is_directory(root / "train", code)) {
    if (!fs::exists(root / "train.bin", code))
      return not_found(root.string() +
                       ": there are no tokens: allowed is a directory with train/ or train.bin");
    files.train.push_back(root / "train.bin");
    if (fs::exists(root / "val.bin", code)) files.eval.push_back(root / "val.bin");
    return files;
  }
  auto train = shards_in(root / "train");
  if (!train) return train.error();
  files.train = *std::move(train);
  if (!fs::exists(root / "eval", code)) return files;
  auto eval = shards_in(root / "eval");
  if (!eval) return eval.error();
  files.eval = *std::move(eval);
  return files;
}

}  // namespace es::store
