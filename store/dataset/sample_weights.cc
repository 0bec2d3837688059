#include "store/dataset/sample_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "store/dataset/arrays/npy_file.h"
#include "store/dataset/stream_key.h"
#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
// The sum of all weights is below 2^63. Real numbers become at most 2^32 each.
constexpr std::uint64_t kWeightSumMax = (std::uint64_t{1} << 63) - 1;
constexpr std::uint64_t kWeightedSamplesMax = std::uint64_t{1} << 30;
constexpr double kLargestWeight = 4294967296.0;  // 2^32

bool is_real(NpyType type) {
  return type == NpyType::kF32 || type == NpyType::kF64;
}

double real_at(NpyType type, std::span<const std::uint8_t> bytes, std::size_t index) {
  if (type == NpyType::kF64) {
    double value = 0;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return static_cast<double>(value);
}

Error wrong_weight(const NpyFile& file, std::uint64_t sample, const char* allowed) {
  return bad_content(file.name(), "the weight of sample " + std::to_string(sample), allowed);
}

// Calls visit(sample, bytes, index in the bytes) for every element, until it returns an error.
template <class Visit>
Status for_each_weight(const NpyFile& file, Visit visit) {
  const std::uint64_t size = npy_bytes(file.header().type);
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t first = 0; first < file.rows(); first += kPieceBytes / size) {
    const std::uint64_t count = std::min(kPieceBytes / size, file.rows() - first);
    bytes.resize(count * size);
    ES_RETURN_IF_ERROR(file.read(first, bytes));
    for (std::uint64_t i = 0; i < count; ++i)
      ES_RETURN_IF_ERROR(visit(first + i, std::span<const std::uint8_t>(bytes), i));
  }
  return {};
}

Result<std::vector<std::uint64_t>> integer_weights(const NpyFile& file) {
  std::vector<std::uint64_t> weights;
  const NpyType type = file.header().type;
  const Status read = for_each_weight(
      file, [&](std::uint64_t sample, std::span<const std::uint8_t> bytes, std::size_t i) {
        const std::int64_t weight = npy_integer(type, bytes, i);
        if (weight < 0) return Status(wrong_weight(file, sample, "0 and more"));
        weights.push_back(static_cast<std::uint64_t>(weight));
        return Status();
      });
  if (!read.ok()) return read.error();
  return weights;
}

Result<std::vector<std::uint64_t>> real_weights(const NpyFile& file) {
  const NpyType type = file.header().type;
  double largest = 0;
  const auto find = [&](std::uint64_t sample, std::span<const std::uint8_t> bytes, std::size_t i) {
    const double weight = real_at(type, bytes, i);
    // False for NaN.
    if (!(weight >= 0.0) || std::isinf(weight))
      return Status(wrong_weight(file, sample, "0 and more, and finite"));
    largest = std::max(largest, weight);
    return Status();
  };
  ES_RETURN_IF_ERROR(for_each_weight(file, find));
  std::vector<std::uint64_t> weights;
  const auto add = [&](std::uint64_t, std::span<const std::uint8_t> bytes, std::size_t i) {
    const double share = largest > 0.0 ? real_at(type, bytes, i) / largest : 0.0;
    // At most 2^32, also if the file has changed since the largest one was found.
    weights.push_back(static_cast<std::uint64_t>(std::min(share, 1.0) * kLargestWeight + 0.5));
    return Status();
  };
  ES_RETURN_IF_ERROR(for_each_weight(file, add));
  return weights;
}

}  // namespace

Result<SampleWeights> SampleWeights::read(const std::filesystem::path& path,
                                          std::uint64_t samples) {
  auto file = NpyFile::open(path);
  if (!file) return file.error();
  const NpyHeader& header = file->header();
  if (header.shape.size() != 1 || header.type == NpyType::kBool)
    return bad_content(file->name(), "array", "one axis of the type f4, f8, u1, u2, u4, i4 or i8");
  if (file->rows() != samples)
    return bad_field(file->name(), "number of weights", std::to_string(file->rows()),
                     std::to_string(samples) + ", the number of training samples");
  if (samples > kWeightedSamplesMax)
    return bad_field(file->name(), "number of weights", std::to_string(samples),
                     "at most " + std::to_string(kWeightedSamplesMax));
  auto weights = is_real(header.type) ? real_weights(*file) : integer_weights(*file);
  if (!weights) return weights.error();
  std::uint64_t sum = 0;
  for (std::uint64_t& weight : *weights) {
    if (weight > kWeightSumMax - sum)
      return bad_content(file->name(), "the sum of the weights", "less than 2^63");
    weight = sum += weight;
  }
  if (sum == 0) return bad_content(file->name(), "the sum of the weights", "more than 0");
  return SampleWeights(*std::move(weights));
}

std::uint64_t SampleWeights::draw(PhiloxKey key, std::uint64_t position) const {
  const auto words = philox4x32_10(index_counter(position), key);
  // floor(r * W / 2^64) with the halves of r, because a product of 128 bits is no type of C++. No
  // sum overflows: W < 2^63, and a half is below 2^32.
  const std::uint64_t low = words[0], high = words[1], sum = ends_.back();
  const std::uint64_t sum_low = sum & 0xffffffffU, sum_high = sum >> 32;
  const std::uint64_t carry =
      (low * sum_low >> 32) + (low * sum_high & 0xffffffffU) + (high * sum_low & 0xffffffffU);
  const std::uint64_t place =
      high * sum_high + (low * sum_high >> 32) + (high * sum_low >> 32) + (carry >> 32);
  return static_cast<std::uint64_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
}

}  // namespace es::store
