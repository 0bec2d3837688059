#include "store/dataset/arrays/input_array.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "store/field_error.h"

namespace es::store {
namespace {

std::string axes_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += ", " + std::to_string(extent);
  return "(samples" + text + (shape.empty() ? ",)" : ")");
}

// Moves the first elements of every axis, as many as `part` has, to the beginning of the array.
void keep_first_elements(const std::vector<std::int64_t>& whole,
                         const std::vector<std::int64_t>& part, std::size_t element_bytes,
                         std::span<std::uint8_t> bytes) {
  // A run is one index on all axes but the last one.
  std::int64_t runs = 1;
  for (std::size_t axis = 0; axis + 1 < part.size(); ++axis) runs *= part[axis];
  const std::size_t length = static_cast<std::size_t>(part.back()) * element_bytes;
  for (std::int64_t run = 0; run < runs; ++run) {
    std::int64_t from = 0, stride = whole.back(), rest = run;
    for (std::size_t axis = part.size() - 1; axis-- > 0;) {
      from += rest % part[axis] * stride;
      rest /= part[axis];
      stride *= whole[axis];
    }
    // Runs move towards the beginning in ascending order, so none overwrites one that still moves.
    std::memmove(bytes.data() + static_cast<std::size_t>(run) * length,
                 bytes.data() + static_cast<std::size_t>(from) * element_bytes, length);
  }
}

// Float64 numbers whose differences fp32 loses are refused, such as times in seconds since 1970.
//
// Two neighbours are the same element of consecutive samples, or consecutive elements of a sample.
// Of the neighbours that differ in float64, by more than a part in 2^40, at most one pair in 100
// may be equal in fp32. The Python package has the same rule (python/easyscale/data/rounding.py).
constexpr double kNoise = 0x1p-40;  // smaller differences come from rounding in float64
constexpr std::int64_t kPairs = 100;

struct ComparedPairs {
  std::int64_t differ = 0, lost = 0;
  std::size_t first = 0;  // the second number of the first pair that is lost

  void add(double a, double b, std::size_t place) {
    // A comparison with NaN is false, so a NaN differs from nothing.
    if (!(std::abs(a - b) > kNoise * std::max(std::abs(a), std::abs(b)))) return;
    ++differ;
    if (static_cast<float>(a) != static_cast<float>(b)) return;
    if (lost++ == 0) first = place;
  }
};

// An error of a reader repeats no content of a file, so it names the place.
Status check_pairs(const std::string& where, const ComparedPairs& pairs, std::size_t elements) {
  if (pairs.lost * kPairs <= pairs.differ) return {};
  return bad_content(
      where,
      "sample " + std::to_string(pairs.first / elements) + ", element " +
          std::to_string(pairs.first % elements),
      "an f8 number that differs from the one beside it also in f4, in which it is computed; of " +
          std::to_string(pairs.differ) + " such pairs " + std::to_string(pairs.lost) +
          " do not: subtract an offset before, or write f4 if this rounding is right");
}

// Error (usage), naming the array `where`, the places of two numbers that become equal, and what to
// do. `numbers` are the first samples, of this many elements each.
Status check_differences(const std::string& where, std::span<const double> numbers,
                         std::size_t elements) {
  for (std::size_t place = 0; place < elements; ++place) {
    ComparedPairs above, beside;
    for (std::size_t i = place; i < numbers.size(); i += elements) {
      if (i >= elements) above.add(numbers[i - elements], numbers[i], i);
      if (place > 0) beside.add(numbers[i - 1], numbers[i], i);
    }
    ES_RETURN_IF_ERROR(check_pairs(where, above, elements));
    ES_RETURN_IF_ERROR(check_pairs(where, beside, elements));
  }
  return {};
}

}  // namespace

Result<InputArray> InputArray::create(NpyFile file, CapturedInput input) {
  const NpyHeader& header = file.header();
  auto conversion = InputConversion::create(file.name(), header.type, std::move(input));
  if (!conversion) return conversion.error();
  const CapturedInput& taken = conversion->input();
  const std::vector<std::uint64_t> found(header.shape.begin() + 1, header.shape.end());
  const std::vector<std::uint64_t> expected(taken.shape.begin(), taken.shape.end());
  if (found != expected)
    return bad_field(file.name(), "shape", axes_text(found),
                     axes_text(expected) + ", as input \"" + taken.field.name + "\" of the model");
  InputArray array(std::move(file), *std::move(conversion));
  const NpyHeader& rows = array.file_.header();
  if (rows.row_bytes() <= kShortSampleBytes && rows.bytes() <= kKeptBytesMax) {
    array.kept_.resize(rows.bytes());
    ES_RETURN_IF_ERROR(array.file_.read(0, array.kept_));
  }
  ES_RETURN_IF_ERROR(array.check_numbers());
  return array;
}

// The first samples are enough: an array whose differences are lost loses them everywhere.
Status InputArray::check_numbers() const {
  const NpyHeader& header = file_.header();
  if (header.type != NpyType::kF64 || header.row_bytes() > kLookedAtBytes) return {};
  const std::uint64_t rows = std::min(header.shape[0], kLookedAtBytes / header.row_bytes());
  std::vector<std::uint8_t> bytes(rows * header.row_bytes());
  ES_RETURN_IF_ERROR(file_.read(0, bytes));
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return check_differences(file_.name(), numbers, header.row_bytes() / sizeof(double));
}

Status InputArray::read(std::uint64_t index, const InputConversion& part,
                        std::vector<std::uint8_t>& bytes, std::span<float> words) const {
  const std::uint64_t row = file_.header().row_bytes();
  const bool is_whole = part.input().shape == input().shape;
  std::span<const std::uint8_t> sample;
  if (!kept_.empty()) sample = std::span(kept_).subspan(index * row, row);
  if (kept_.empty() || !is_whole) bytes.resize(row);
  if (kept_.empty())
    ES_RETURN_IF_ERROR(file_.read(index, bytes));
  else if (!is_whole)
    std::ranges::copy(sample, bytes.begin());
  if (!is_whole)
    keep_first_elements(input().shape, part.input().shape, npy_bytes(part.type()), bytes);
  if (kept_.empty() || !is_whole) sample = std::span(bytes).first(part.bytes());
  const auto wrong = part.convert(sample, words);
  if (!wrong) return {};
  return part.out_of_range(file_.name() + ": sample " + std::to_string(index), *wrong);
}

}  // namespace es::store
