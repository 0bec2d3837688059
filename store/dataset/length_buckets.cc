#include "store/dataset/length_buckets.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "proto/base/check.h"
#include "store/dataset/arrays/npy_file.h"
#include "store/dataset/keyed_permutation.h"
#include "store/field_error.h"

namespace es::store {
namespace {

// Where the samples begin that an epoch leaves out, among the n of a ladder.
std::uint64_t cut_of(std::uint64_t seed, std::uint64_t epoch, std::size_t ladder, std::uint64_t n) {
  const auto words =
      philox4x32_10(index_counter(ladder), stream_key(seed, DataStream::kBucketCut, epoch));
  const std::uint64_t random = std::uint64_t{words[1]} << 32 | words[0];
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(random) * n >> 64);
}

}  // namespace

Result<std::vector<std::uint8_t>> read_bucket_numbers(const std::filesystem::path& path,
                                                      std::uint64_t samples, std::uint32_t buckets,
                                                      const char* what) {
  auto file = NpyFile::open(path);
  if (!file) return file.error();
  const NpyHeader& header = file->header();
  if (header.shape.size() != 1 || header.type != NpyType::kU8)
    return bad_content(file->name(), "array", "one axis of the type u1");
  if (file->rows() != samples)
    return bad_field(file->name(), "number of elements", std::to_string(file->rows()),
                     std::to_string(samples) + ", the number of " + what);
  std::vector<std::uint8_t> numbers(samples);
  ES_RETURN_IF_ERROR(file->read(0, numbers));
  const auto wrong =
      std::ranges::find_if(numbers, [&](std::uint8_t number) { return number >= buckets; });
  if (wrong != numbers.end())
    return bad_field(
        file->name(), "element " + std::to_string(wrong - numbers.begin()), std::to_string(*wrong),
        "0 to " + std::to_string(buckets - 1) + ", the numbers of the programs of the model file");
  return numbers;
}

std::vector<EvaluatedSamples> evaluation_batches(std::span<const std::uint8_t> numbers,
                                                 const BucketLadders& held_by_last,
                                                 std::uint64_t samples, std::uint32_t batch_size) {
  ES_CHECK(batch_size > 0 && (numbers.empty() || numbers.size() == samples));
  // The first bucket of the ladder of each bucket, which no other ladder has.
  std::vector<std::uint32_t> ladder_of(held_by_last.size(), 0);
  for (std::uint32_t b = 1; b < held_by_last.size(); ++b)
    ladder_of[b] = held_by_last[b] ? ladder_of[b - 1] : b;
  std::vector<EvaluatedSamples> batches;
  for (std::uint64_t i = 0; i < samples; ++i) {
    const std::uint32_t bucket = numbers.empty() ? 0 : numbers[i];
    const bool begins = batches.empty() || batches.back().count == batch_size ||
                        ladder_of[batches.back().bucket] != ladder_of[bucket];
    if (begins) batches.push_back({.begin = i, .count = 0, .bucket = bucket});
    batches.back().bucket = std::min(batches.back().bucket, bucket);
    ++batches.back().count;
  }
  return batches;
}

LengthBuckets::LengthBuckets(std::span<const std::uint8_t> numbers, std::uint32_t buckets,
                             std::uint64_t global_batch)
    : global_batch_(global_batch), members_(numbers.size()) {
  std::iota(members_.begin(), members_.end(), std::uint64_t{0});
  std::ranges::stable_sort(members_, {}, [&](std::uint64_t sample) { return numbers[sample]; });
  for (std::uint32_t b = 0; b < buckets; ++b) {
    const auto end = std::ranges::upper_bound(
        members_, b, {}, [&](std::uint64_t sample) { return std::uint32_t{numbers[sample]}; });
    ends_.push_back(static_cast<std::uint64_t>(end - members_.begin()));
  }
}

Result<LengthBuckets> LengthBuckets::create(std::span<const std::uint8_t> numbers,
                                            const BucketLadders& held_by_last,
                                            std::uint64_t global_batch) {
  const auto buckets = static_cast<std::uint32_t>(held_by_last.size());
  ES_CHECK(buckets >= 1 && buckets <= kLengthBucketsMax && global_batch >= 1);
  LengthBuckets made(numbers, buckets, global_batch);
  ES_RETURN_IF_ERROR(made.add_ladders(held_by_last));
  return made;
}

Status LengthBuckets::add_ladders(const BucketLadders& held_by_last) {
  for (std::uint32_t b = 0; b < ends_.size(); ++b) {
    if (ends_[b] == begin_of(b))
      return usage_error("length bucket " + std::to_string(b) +
                         " has no training sample: allowed are buckets with samples");
    if (b == 0 || !held_by_last[b]) ladders_.push_back({.first_bucket = b, .begin = begin_of(b)});
    ladders_.back().end = ends_[b];
  }
  std::uint64_t batches = 0;
  for (Ladder& ladder : ladders_) {
    ladder.batches_begin = batches;
    ladder.batches_end = batches += ladder.samples() / global_batch_;
    if (ladder.batches_begin == ladder.batches_end)
      return usage_error(
          "training samples of length bucket " + std::to_string(ladder.first_bucket) +
          " and those that it holds = " + std::to_string(ladder.samples()) +
          ": allowed is at least max_p * batch_size = " + std::to_string(global_batch_) +
          " (one global batch)");
  }
  return {};
}

// The samples from `position` on, at most `count`, as far as they are of one bucket and adjacent.
LengthBuckets::Run LengthBuckets::run_at(std::uint64_t seed, std::uint64_t epoch,
                                         std::uint64_t step, std::uint64_t position,
                                         std::uint64_t count) const {
  ES_CHECK(step < global_batches() && position < global_batch_ && count >= 1);
  const std::uint64_t batch =
      KeyedPermutation(global_batches(), stream_key(seed, DataStream::kShuffle, epoch))(step);
  const auto ladder = std::ranges::upper_bound(ladders_, batch, {}, &Ladder::batches_end);
  const std::uint64_t n = ladder->samples(), left_out = n % global_batch_;
  const std::uint64_t cut =
      cut_of(seed, epoch, static_cast<std::size_t>(ladder - ladders_.begin()), n);
  std::uint64_t place = (batch - ladder->batches_begin) * global_batch_ + position;
  if (cut + left_out > n) {
    place += cut + left_out - n;  // the first places and the last ones are left out
  } else if (place >= cut) {
    place += left_out;
  } else {
    count = std::min(count, cut - place);
  }
  place += ladder->begin;
  const auto bucket =
      static_cast<std::uint32_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
  return {.bucket = bucket,
          .first = place - begin_of(bucket),
          .count = std::min(count, ends_[bucket] - place)};
}

void LengthBuckets::fill(std::uint64_t seed, std::uint64_t epoch, std::uint64_t step,
                         std::uint64_t first, std::span<std::uint64_t> out) const {
  ES_CHECK(out.size() <= global_batch_ && first <= global_batch_ - out.size());
  while (!out.empty()) {
    const Run run = run_at(seed, epoch, step, first, out.size());
    const std::uint64_t begin = begin_of(run.bucket);
    const std::span<std::uint64_t> part = out.first(run.count);
    KeyedPermutation(ends_[run.bucket] - begin, stream_key(seed, DataStream::kBucketShuffle,
                                                           kLengthBucketsMax * epoch + run.bucket))
        .fill(run.first, part);
    for (std::uint64_t& sample : part) sample = members_[begin + sample];
    first += run.count;
    out = out.subspan(run.count);
  }
}

std::uint32_t LengthBuckets::bucket(std::uint64_t seed, std::uint64_t epoch, std::uint64_t step,
                                    std::uint64_t position) const {
  return run_at(seed, epoch, step, position, 1).bucket;
}

}  // namespace es::store
