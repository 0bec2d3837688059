// Samples in NumPy files, for models from model files: DIRECTORY/train/NAME.npy and
// DIRECTORY/eval/NAME.npy for every input NAME of the model.
//
// InputArray says which arrays an input can be read from. All arrays of a half have the same number
// of samples. Without a directory "eval" there are no evaluation samples. Headers are read when the
// source is opened, and samples when they are used.
#include "store/dataset/sources.h"

#include <algorithm>
#include <bit>
#include <system_error>

#include "store/dataset/arrays/input_array.h"
#include "store/dataset/arrays/input_conversion.h"
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

// The inputs with the largest extents of all length buckets, which are those of the arrays.
CapturedInputs whole_inputs(const CapturedInputs& inputs, std::uint32_t buckets) {
  CapturedInputs whole = inputs;
  for (std::uint32_t b = 1; b < buckets; ++b)
    for (std::size_t i = 0; i < whole.inputs.size(); ++i)
      std::ranges::transform(whole.inputs[i].shape, inputs.of(b).inputs[i].shape,
                             whole.inputs[i].shape.begin(),
                             [](std::int64_t x, std::int64_t y) { return std::max(x, y); });
  return whole;
}

// The arrays of a job, which all of its length buckets read.
struct JobArrays {
  HalfArrays train, eval;
  std::vector<float> labels;  // of the evaluation samples, as bits; empty if they are not compared

  const HalfArrays& of(Half half) const { return half == Half::kTrain ? train : eval; }
};

// How the elements of the arrays of a half become the inputs of one bucket.
Result<std::vector<InputConversion>> conversions(const HalfArrays& arrays,
                                                 const CapturedInputs& inputs) {
  std::vector<InputConversion> all;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const NpyFile& file = arrays[i].file();
    auto conversion = InputConversion::create(file.name(), file.header().type, inputs.inputs[i]);
    if (!conversion) return conversion.error();
    all.push_back(*std::move(conversion));
  }
  return all;
}

class ArraysSource final : public RecordSource {
 public:
  static Result<std::shared_ptr<const ArraysSource>> create(std::shared_ptr<const JobArrays> arrays,
                                                            const CapturedInputs& inputs,
                                                            std::uint32_t buckets) {
    auto train = conversions(arrays->train, inputs);
    if (!train) return train.error();
    auto eval = conversions(arrays->eval, inputs);
    if (!eval) return eval.error();
    DataFacts facts{.layout = inputs.layout(),
                    .train_count = count_of(arrays->train),
                    .eval_count = count_of(arrays->eval)};
    const std::shared_ptr<ArraysSource> source(
        new ArraysSource(std::move(facts), arrays, *std::move(train), *std::move(eval)));
    for (std::uint32_t b = 1; b < buckets; ++b) {
      auto other = create(arrays, inputs.of(b), 1);
      if (!other) return other.error();
      source->others_.push_back(*std::move(other));
    }
    return std::shared_ptr<const ArraysSource>(source);
  }

  std::uint32_t buckets() const override { return static_cast<std::uint32_t>(others_.size() + 1); }
  const SampleSource& of_bucket(std::uint32_t bucket) const override {
    return bucket == 0 ? *this : *others_[bucket - 1];
  }
  bool has_labels() const override { return !arrays_->labels.empty(); }
  std::int32_t true_label(std::uint64_t index) const override {
    return std::bit_cast<std::int32_t>(arrays_->labels[index]);
  }

 private:
  ArraysSource(DataFacts facts, std::shared_ptr<const JobArrays> arrays,
               std::vector<InputConversion> train, std::vector<InputConversion> eval)
      : RecordSource(std::move(facts)),
        arrays_(std::move(arrays)),
        train_(std::move(train)),
        eval_(std::move(eval)) {}

  Status write(Half half, std::uint64_t, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch& scratch) const override {
    const HalfArrays& arrays = arrays_->of(half);
    const std::vector<InputConversion>& conversions = half == Half::kTrain ? train_ : eval_;
    for (std::size_t f = 0; f < arrays.size(); ++f)
      ES_RETURN_IF_ERROR(
          arrays[f].read(index, conversions[f], scratch.pixels, block.field(f, position)));
    return {};
  }

  std::shared_ptr<const JobArrays> arrays_;
  std::vector<InputConversion> train_, eval_;                // to the inputs of this bucket
  std::vector<std::shared_ptr<const ArraysSource>> others_;  // of bucket 0: the other buckets
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
  const auto buckets =
      spec.data.length_buckets.empty() ? 1 : static_cast<std::uint32_t>(inputs.others.size() + 1);
  const CapturedInputs whole = whole_inputs(inputs, buckets);
  auto train = open_half(root / "train", whole);
  if (!train) return train.error();
  ES_RETURN_IF_ERROR(check_place(RootKind::kData, root / "eval"));
  std::error_code code;
  auto eval = fs::exists(root / "eval", code) ? open_half(root / "eval", whole)
                                              : Result<HalfArrays>(HalfArrays());
  if (!eval) return eval.error();
  auto labels =
      inputs.predicts_label ? read_labels(*eval) : Result<std::vector<float>>(std::vector<float>());
  if (!labels) return labels.error();
  auto source = ArraysSource::create(std::make_shared<const JobArrays>(JobArrays{
                                         *std::move(train), *std::move(eval), *std::move(labels)}),
                                     inputs, buckets);
  if (!source) return source.error();
  return std::shared_ptr<const SampleSource>(*std::move(source));
}

}  // namespace es::store
