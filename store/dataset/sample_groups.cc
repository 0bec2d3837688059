#include "store/dataset/sample_groups.h"

#include <algorithm>
#include <numeric>

#include "proto/base/check.h"
#include "store/dataset/arrays/npy_file.h"
#include "store/dataset/keyed_permutation.h"
#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::uint64_t kGroupedSamplesMax = std::uint64_t{1} << 30;

bool is_integer(NpyType type) {
  return type != NpyType::kBool && type != NpyType::kF32 && type != NpyType::kF64;
}

}  // namespace

SampleGroups::SampleGroups(std::span<const std::int64_t> keys) : members_(keys.size()) {
  ES_CHECK(!keys.empty());
  std::iota(members_.begin(), members_.end(), std::uint64_t{0});
  std::ranges::stable_sort(members_, {}, [&](std::uint64_t sample) { return keys[sample]; });
  for (std::uint64_t i = 1; i <= members_.size(); ++i)
    if (i == members_.size() || keys[members_[i]] != keys[members_[i - 1]]) ends_.push_back(i);
}

Result<SampleGroups> SampleGroups::read(const std::filesystem::path& path, std::uint64_t samples) {
  auto file = NpyFile::open(path);
  if (!file) return file.error();
  const NpyHeader& header = file->header();
  if (header.shape.size() != 1 || !is_integer(header.type))
    return bad_content(file->name(), "array", "one axis of the type u1, u2, u4, i4 or i8");
  if (file->rows() != samples)
    return bad_field(file->name(), "number of keys", std::to_string(file->rows()),
                     std::to_string(samples) + ", the number of training samples");
  if (samples == 0 || samples > kGroupedSamplesMax)
    return bad_field(file->name(), "number of keys", std::to_string(samples),
                     "1 to " + std::to_string(kGroupedSamplesMax));
  std::vector<std::uint8_t> bytes(samples * npy_bytes(header.type));
  ES_RETURN_IF_ERROR(file->read(0, bytes));
  std::vector<std::int64_t> keys;
  keys.reserve(samples);
  for (std::uint64_t i = 0; i < samples; ++i) keys.push_back(npy_integer(header.type, bytes, i));
  return SampleGroups(keys);
}

std::uint64_t SampleGroups::member(std::uint64_t seed, std::uint64_t epoch,
                                   std::uint64_t group) const {
  const std::uint64_t begin = group == 0 ? 0 : ends_[group - 1], size = ends_[group] - begin;
  if (size == 1) return members_[begin];
  const auto words =
      philox4x32_10(index_counter(group), stream_key(seed, DataStream::kGroupTurn, epoch / size));
  return members_[begin + KeyedPermutation(size, {words[0], words[1]})(epoch % size)];
}

}  // namespace es::store
