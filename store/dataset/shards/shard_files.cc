#include "store/dataset/shards/shard_files.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "store/dataset/line_reader.h"
#include "store/dataset/sorted_names.h"
#include "store/field_error.h"
#include "store/path_roots.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

bool is_tar(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.path().extension() == ".tar" && entry.is_regular_file(ignored);
}

Result<std::vector<ShardFile>> listed_shards(const fs::path& list) {
  auto reader = LineReader::open(list);
  if (!reader) return reader.error();
  std::vector<ShardFile> shards;
  std::string_view line;
  while (true) {
    const Result<bool> more = reader->next(line);
    if (!more) return more.error();
    if (!*more || shards.size() > kShardsMax) return shards;
    if (line.empty()) return bad_content(reader->where(), "path", "that of a tar file");
    shards.push_back({list.parent_path() / line, reader->where()});
  }
}

bool is_compressed_tar(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return std::ranges::any_of(std::array{".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"},
                             [&](const char* ending) { return name.ends_with(ending); });
}

Result<std::vector<ShardFile>> shards_in_directory(const fs::path& directory) {
  const auto compressed = sorted_names(directory, is_compressed_tar);
  if (!compressed) return compressed.error();
  if (!compressed->empty())
    return usage_error((directory / compressed->front()).string() +
                       ": the archive is compressed: allowed are files *.tar that are not");
  const auto names = sorted_names(directory, is_tar);
  if (!names) return names.error();
  std::vector<ShardFile> shards;
  for (const std::string& name : *names)
    shards.push_back({directory / name, (directory / name).string()});
  return shards;
}

// `half` is "train" or "eval". An empty result: there is neither a list nor a directory.
Result<std::vector<ShardFile>> shards_of_half(const fs::path& root, const std::string& half) {
  const fs::path directory = root / half, list = root / (half + ".txt");
  for (const fs::path& place : {directory, list})
    ES_RETURN_IF_ERROR(check_place(RootKind::kData, place));
  std::error_code code;
  const bool has_list = fs::exists(list, code);
  if (!fs::exists(directory, code) && !has_list) return std::vector<ShardFile>();
  if (fs::exists(directory, code) && has_list)
    return usage_error(root.string() + ": there are both " + half + "/ and " + half +
                       ".txt: allowed is one of them");
  auto shards = has_list ? listed_shards(list) : shards_in_directory(directory);
  if (shards.ok() && (shards->empty() || shards->size() > kShardsMax))
    return bad_field((has_list ? list : directory).string(), "number of tar files",
                     shards->empty() ? "0" : "more", "1 to " + std::to_string(kShardsMax));
  return shards;
}

}  // namespace

bool has_shards(const fs::path& directory) {
  std::error_code code;
  if (fs::exists(directory / "train.txt", code)) return true;
  const auto names = sorted_names(directory / "train", [](const fs::directory_entry& entry) {
    return is_tar(entry) || is_compressed_tar(entry);
  });
  return names.ok() && !names->empty();
}

Result<ShardFiles> shard_files(const fs::path& directory) {
  auto train = shards_of_half(directory, "train");
  if (!train) return train.error();
  if (train->empty())
    return not_found(directory.string() +
                     ": there are no shards: allowed is a directory with train/*.tar or train.txt");
  auto eval = shards_of_half(directory, "eval");
  if (!eval) return eval.error();
  return ShardFiles{*std::move(train), *std::move(eval)};
}

Result<DataFile> open_shard(const ShardFile& shard) {
  auto file = DataFile::open(shard.path, shard.name);
  const bool is_listed = shard.name != shard.path.string();
  // Errors about roots name the path, which is content of the list.
  if (!file.ok() && is_listed && file.error().kind == ErrorKind::kRefused)
    return Error{ErrorKind::kRefused, shard.name + ": the file is not below a root of data"};
  return file;
}

}  // namespace es::store
