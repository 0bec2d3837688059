#include "actors/esctl/commands/data_shards.h"

#include <algorithm>
#include <limits>

#include "actors/esctl/views/json_text.h"
#include "actors/esctl/views/render_text.h"
#include "store/dataset/shards/shard_index.h"

namespace es::actors::esctl {
namespace {

using ShardJson = nlohmann::ordered_json;

// A job compares the labels with the classes of its model.
constexpr std::uint32_t kClassesOfAnyModel = std::numeric_limits<std::int32_t>::max();

std::int32_t largest_label(const store::ShardIndex& half) {
  return std::ranges::max_element(half.samples, {}, &store::ShardSample::label)->label;
}

ShardJson shard_half_json(const store::ShardIndex& half) {
  if (half.samples.empty()) return nullptr;
  return {{"samples", half.samples.size()},
          {"shards", half.shards.size()},
          {"largest_label", largest_label(half)}};
}

std::vector<std::string> shard_half_row(const char* name, const store::ShardIndex& half) {
  if (half.samples.empty()) return {name, "none"};
  return {name, counted(half.samples.size(), "sample") + " in " +
                    counted(half.shards.size(), "shard") + ", labels up to " +
                    std::to_string(largest_label(half))};
}

}  // namespace

Result<std::string> inspect_shards(const std::string& directory, bool json) {
  const auto files = store::shard_files(directory);
  if (!files) return files.error();
  store::ShardIndex halves[2];
  const std::vector<store::ShardFile>* const lists[] = {&files->train, &files->eval};
  for (int i = 0; i < 2; ++i) {
    if (lists[i]->empty()) continue;
    auto index = store::index_shards(*lists[i], kClassesOfAnyModel, store::KeysInErrors::kShown);
    if (!index) return index.error();
    halves[i] = *std::move(index);
  }
  if (!json)
    return table({{"directory", directory},
                  shard_half_row("train", halves[0]),
                  shard_half_row("eval", halves[1])});
  return json_text(ShardJson{{"directory", directory},
                             {"train", shard_half_json(halves[0])},
                             {"eval", shard_half_json(halves[1])}}) +
         "\n";
}

}  // namespace es::actors::esctl
