#include "store/dataset/arrays/input_array.h"

#include "store/dataset/field_error.h"

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
  return InputArray(std::move(file), *std::move(conversion));
}

Status InputArray::read(std::uint64_t index, std::vector<std::uint8_t>& bytes,
                        std::span<float> words) const {
  bytes.resize(file_.header().row_bytes());
  ES_RETURN_IF_ERROR(file_.read(index, bytes));
  const auto wrong = conversion_.convert(bytes, words);
  if (!wrong) return {};
  return conversion_.out_of_range(file_.name() + ": sample " + std::to_string(index), *wrong);
}

}  // namespace es::store
