#include "actors/esctl/commands/data_parts.h"

#include <algorithm>
#include <limits>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"
#include "store/dataset/shards/shard_index.h"

namespace es::actors::esctl {
namespace {

using ShardJson = nlohmann::ordered_json;

// A job compares the labels with the classes of its model.
constexpr std::uint32_t kClassesOfAnyModel = std::numeric_limits<std::int32_t>::max();

std::int32_t largest_label(const store::ShardIndex& half) {
  return std::ranges::max_element(half.samples, {}, &store::ShardSample::label)->label;
}

// The training or the evaluation; without shards there is none.
struct ShardHalf {
  store::ShardIndex index;
  std::uint64_t index_files = 0;  // of shards that have one which fits
};

ShardJson shard_half_json(const ShardHalf& half) {
  if (half.index.samples.empty()) return nullptr;
  return {{"samples", half.index.samples.size()},
          {"shards", half.index.shards.size()},
          {"index_files", half.index_files},
          {"largest_label", largest_label(half.index)}};
}

std::vector<std::string> shard_half_row(const char* name, const ShardHalf& half) {
  if (half.index.samples.empty()) return {name, "none"};
  const std::size_t shards = half.index.shards.size();
  const std::string indexes = half.index_files == 0 ? "no index files"
                              : half.index_files == shards
                                  ? "all with index files"
                                  : std::to_string(half.index_files) + " with index files";
  return {name, counted(half.index.samples.size(), "sample") + " in " + counted(shards, "shard") +
                    ", " + indexes + ", labels up to " + std::to_string(largest_label(half.index))};
}

// Does something with the index file of shard number i, and returns whether there is one that fits.
using OnShard = Result<bool> (*)(const store::ShardIndex& index, std::size_t i);

Result<bool> check_index_file(const store::ShardIndex& index, std::size_t i) {
  const store::Shard& shard = index.shards[i];
  const auto known = store::read_shard_index(shard.file, shard.state);
  if (known && !std::ranges::equal(*known, index.samples_of(i)))
    return usage_error(store::shard_index_path(shard.file).string() +
                       ": it names other samples than the tar file has: remove it");
  return known.has_value();
}

Result<bool> write_index_file(const store::ShardIndex& index, std::size_t i) {
  const store::Shard& shard = index.shards[i];
  ES_RETURN_IF_ERROR(store::write_shard_index(store::posix_file_system(), shard.file, shard.state,
                                              index.samples_of(i)));
  return true;
}

Result<ShardHalf> read_shard_half(const std::vector<store::ShardFile>& files, OnShard on_shard) {
  ShardHalf half;
  if (files.empty()) return half;
  auto index = store::index_shards(files, kClassesOfAnyModel, store::KeysInErrors::kShown,
                                   store::IndexFiles::kIgnored);
  if (!index) return index.error();
  half.index = *std::move(index);
  for (std::size_t i = 0; i < half.index.shards.size(); ++i) {
    const auto fits = on_shard(half.index, i);
    if (!fits) return fits.error();
    half.index_files += *fits ? 1 : 0;
  }
  return half;
}

Result<std::string> shards_text(const std::string& directory, bool json, OnShard on_shard) {
  const auto files = store::shard_files(directory);
  if (!files) return files.error();
  const auto train = read_shard_half(files->train, on_shard);
  if (!train) return train.error();
  const auto eval = read_shard_half(files->eval, on_shard);
  if (!eval) return eval.error();
  if (!json)
    return table(
        {{"directory", directory}, shard_half_row("train", *train), shard_half_row("eval", *eval)});
  return json_text(ShardJson{{"directory", directory},
                             {"train", shard_half_json(*train)},
                             {"eval", shard_half_json(*eval)}}) +
         "\n";
}

}  // namespace

Result<std::string> inspect_shards(const std::string& directory, bool json) {
  return shards_text(directory, json, check_index_file);
}

Result<std::string> write_shard_indexes(const std::string& directory, bool json) {
  return shards_text(directory, json, write_index_file);
}

}  // namespace es::actors::esctl
