#include "store/dataset/arrays/arrays_source.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "store/dataset/arrays/npy_file.h"
#include "store/dataset/field_error.h"
#include "store/dataset/record_source.h"
#include "store/path_roots.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLabel = "label";

// The types of elements that an input can be read from, and their names in errors.
struct ReadableTypes {
  std::vector<NpyType> types;
  const char* text;
};
ReadableTypes readable_types(ValueType type) {
  switch (type) {
    case ValueType::kF32:
      return {{NpyType::kF32, NpyType::kF64, NpyType::kU8}, "f4, f8 or u1"};
    case ValueType::kI32:
      return {{NpyType::kI32, NpyType::kI64, NpyType::kU8, NpyType::kBool}, "i4, i8, u1 or bool"};
    case ValueType::kBool:
      return {{NpyType::kBool, NpyType::kU8}, "bool or u1"};
  }
  return {};
}

std::string axes_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += ", " + std::to_string(extent);
  return "(samples" + text + (shape.empty() ? ",)" : ")");
}

Status check_array(const NpyFile& file, const CapturedInput& input) {
  const NpyHeader& header = file.header();
  const ReadableTypes readable = readable_types(input.type);
  if (std::ranges::find(readable.types, header.type) == readable.types.end())
    return bad_field(file.name(), "type of elements", npy_name(header.type),
                     std::string(readable.text) + " for input \"" + input.field.name + "\"");
  const std::vector<std::uint64_t> found(header.shape.begin() + 1, header.shape.end());
  const std::vector<std::uint64_t> expected(input.shape.begin(), input.shape.end());
  if (found == expected) return {};
  return bad_field(file.name(), "shape", axes_text(found),
                   axes_text(expected) + ", as input \"" + input.field.name + "\" of the model");
}

template <class T>
T element(std::span<const std::uint8_t> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

float real_at(NpyType type, std::span<const std::uint8_t> bytes, std::size_t index) {
  if (type == NpyType::kF32) return element<float>(bytes, index);
  if (type == NpyType::kF64) return static_cast<float>(element<double>(bytes, index));
  return static_cast<float>(bytes[index]);
}

std::int64_t integer_at(NpyType type, std::span<const std::uint8_t> bytes, std::size_t index) {
  if (type == NpyType::kI32) return element<std::int32_t>(bytes, index);
  if (type == NpyType::kI64) return element<std::int64_t>(bytes, index);
  return bytes[index];
}

// One array of one input.
struct InputArray {
  NpyFile file;
  CapturedInput input;

  // Channels of an image, whose planes become the last axis; 1 for everything else.
  std::size_t channels() const {
    return input.shape.size() == 3 ? static_cast<std::size_t>(input.shape[0]) : 1;
  }

  // Calls put(place of the word in the sample, index of the element in the row) for each element.
  template <class Put>
  void for_each_place(std::size_t elements, Put put) const {
    const std::size_t planes = channels(), pixels = elements / planes;
    for (std::size_t c = 0; c < planes; ++c)
      for (std::size_t p = 0; p < pixels; ++p) put(p * planes + c, c * pixels + p);
  }

  // Converts a row. `index` names the sample in errors.
  Status convert(std::uint64_t index, std::span<const std::uint8_t> bytes,
                 std::span<float> words) const {
    if (input.field.type != FieldType::kF32) return convert_integers(index, bytes, words);
    for_each_place(words.size(), [&](std::size_t place, std::size_t i) {
      words[place] = real_at(file.header().type, bytes, i);
    });
    return {};
  }

  Status convert_integers(std::uint64_t index, std::span<const std::uint8_t> bytes,
                          std::span<float> words) const {
    std::size_t wrong = words.size();
    for_each_place(words.size(), [&](std::size_t place, std::size_t i) {
      const std::int64_t value = integer_at(file.header().type, bytes, i);
      if (value < input.field.low || value > input.field.high) wrong = std::min(wrong, i);
      words[place] = std::bit_cast<float>(static_cast<std::int32_t>(value));
    });
    if (wrong == words.size()) return {};
    return bad_content(file.name() + ": sample " + std::to_string(index),
                       "element " + std::to_string(wrong),
                       std::to_string(input.field.low) + " to " + std::to_string(input.field.high));
  }

  Status read(std::uint64_t index, std::vector<std::uint8_t>& bytes, std::span<float> words) const {
    bytes.resize(file.header().row_bytes());
    ES_RETURN_IF_ERROR(file.read(index, bytes));
    return convert(index, bytes, words);
  }
};

// The arrays of one half of the data, in the order of the fields.
using HalfArrays = std::vector<InputArray>;

Result<HalfArrays> open_half(const fs::path& directory, const CapturedInputs& inputs) {
  HalfArrays arrays;
  for (const CapturedInput& input : inputs.inputs) {
    auto file = NpyFile::open(directory / (input.field.name + ".npy"));
    if (!file)
      return Error{file.error().kind, file.error().message + " (the array of input \"" +
                                          input.field.name + "\" of the model)"};
    ES_RETURN_IF_ERROR(check_array(*file, input));
    if (!arrays.empty() && file->rows() != arrays.front().file.rows())
      return bad_field(
          file->name(), "number of samples", std::to_string(file->rows()),
          std::to_string(arrays.front().file.rows()) + ", as in " + arrays.front().file.name());
    arrays.push_back({*std::move(file), input});
  }
  return arrays;
}

std::uint64_t count_of(const HalfArrays& arrays) {
  return arrays.empty() ? 0 : arrays.front().file.rows();
}

class ArraysSource final : public RecordSource {
 public:
  ArraysSource(DataFacts facts, HalfArrays train, HalfArrays eval, std::vector<float> labels)
      : RecordSource(std::move(facts)),
        train_(std::move(train)),
        eval_(std::move(eval)),
        labels_(std::move(labels)) {}

  bool has_labels() const override { return !labels_.empty(); }
  std::int32_t true_label(std::uint64_t index) const override {
    return std::bit_cast<std::int32_t>(labels_[index]);
  }

 private:
  Status write(Half half, std::uint64_t, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch& scratch) const override {
    const HalfArrays& arrays = half == Half::kTrain ? train_ : eval_;
    for (std::size_t f = 0; f < arrays.size(); ++f)
      ES_RETURN_IF_ERROR(arrays[f].read(index, scratch.pixels, block.field(f, position)));
    return {};
  }

  HalfArrays train_, eval_;
  std::vector<float> labels_;  // of the evaluation samples, as bits; empty if they are not compared
};

// The labels of all evaluation samples, with which metrics compare predictions. Nothing if a label
// is negative: the loss ignores such a sample, and an accuracy over all samples has no meaning.
Result<std::vector<float>> read_labels(const HalfArrays& eval) {
  const auto label = std::ranges::find_if(
      eval, [](const InputArray& array) { return array.input.field.name == kLabel; });
  std::vector<float> labels(count_of(eval));
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t i = 0; i < labels.size(); ++i)
    ES_RETURN_IF_ERROR(label->read(i, bytes, std::span(labels).subspan(i, 1)));
  const bool ignored =
      std::ranges::any_of(labels, [](float bits) { return std::bit_cast<std::int32_t>(bits) < 0; });
  return ignored ? std::vector<float>() : labels;
}

// Input names become names of files.
Status check_input_names(const CapturedInputs& inputs) {
  for (const CapturedInput& input : inputs.inputs) {
    const std::string& name = input.field.name;
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos)
      return bad_content("model.file", "the name of an input",
                         "a name of a file, for data.kind = \"arrays\"");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const SampleSource>> arrays_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs) {
  ES_RETURN_IF_ERROR(check_input_names(inputs));
  const fs::path root(spec.data.path);
  auto train = open_half(root / "train", inputs);
  if (!train) return train.error();
  ES_RETURN_IF_ERROR(check_place(RootKind::kData, root / "eval"));
  std::error_code code;
  auto eval = fs::exists(root / "eval", code) ? open_half(root / "eval", inputs)
                                              : Result<HalfArrays>(HalfArrays());
  if (!eval) return eval.error();
  auto labels =
      inputs.predicts_label ? read_labels(*eval) : Result<std::vector<float>>(std::vector<float>());
  if (!labels) return labels.error();
  DataFacts facts{
      .layout = inputs.layout(), .train_count = count_of(*train), .eval_count = count_of(*eval)};
  return std::shared_ptr<const SampleSource>(std::make_shared<ArraysSource>(
      std::move(facts), *std::move(train), *std::move(eval), *std::move(labels)));
}

}  // namespace es::store
