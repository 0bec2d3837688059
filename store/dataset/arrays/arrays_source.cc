#include "store/dataset/arrays/arrays_source.h"

#include <algorithm>
#include <bit>
#include <system_error>

#include "store/dataset/arrays/input_array.h"
#include "store/dataset/record_source.h"
#include "store/field_error.h"
#include "store/path_roots.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLabel = "label";

// The arrays of one half of the data, in the order of the fields.
using HalfArrays = std::vector<InputArray>;

// All arrays of a half have the same number of samples.
Status check_rows(const InputArray& array, const HalfArrays& others) {
  if (others.empty() || array.file().rows() == others.front().file().rows()) return {};
  const NpyFile& first = others.front().file();
  return bad_field(array.file().name(), "number of samples", std::to_string(array.file().rows()),
                   std::to_string(first.rows()) + ", as in " + first.name());
}

Result<HalfArrays> open_half(const fs::path& directory, const CapturedInputs& inputs) {
  HalfArrays arrays;
  for (const CapturedInput& input : inputs.inputs) {
    auto file = NpyFile::open(directory / (input.field.name + ".npy"));
    if (!file)
      return Error{file.error().kind, file.error().message + " (the array of input \"" +
                                          input.field.name + "\" of the model)"};
    auto array = InputArray::create(*std::move(file), input);
    if (!array) return array.error();
    ES_RETURN_IF_ERROR(check_rows(*array, arrays));
    arrays.push_back(*std::move(array));
  }
  return arrays;
}

std::uint64_t count_of(const HalfArrays& arrays) {
  return arrays.empty() ? 0 : arrays.front().file().rows();
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
      eval, [](const InputArray& array) { return array.input().field.name == kLabel; });
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
