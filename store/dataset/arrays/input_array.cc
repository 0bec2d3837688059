#include "store/dataset/arrays/input_array.h"

#include <algorithm>
#include <cstring>

#include "store/dataset/arrays/lost_differences.h"
#include "store/field_error.h"

namespace es::store {
namespace {

std::string axes_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += ", " + std::to_string(extent);
  return "(samples" + text + (shape.empty() ? ",)" : ")");
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

Status InputArray::read(std::uint64_t index, std::vector<std::uint8_t>& bytes,
                        std::span<float> words) const {
  const std::uint64_t row = file_.header().row_bytes();
  std::span<const std::uint8_t> sample;
  if (kept_.empty()) {
    bytes.resize(row);
    ES_RETURN_IF_ERROR(file_.read(index, bytes));
    sample = bytes;
  } else {
    sample = std::span(kept_).subspan(index * row, row);
  }
  const auto wrong = conversion_.convert(sample, words);
  if (!wrong) return {};
  return conversion_.out_of_range(file_.name() + ": sample " + std::to_string(index), *wrong);
}

}  // namespace es::store
