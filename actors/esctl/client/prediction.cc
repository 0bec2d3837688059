#include "actors/esctl/client/prediction.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <system_error>
#include <utility>

#include "gpu/import/sample_rows.h"
#include "store/dataset/arrays/npz_file.h"
#include "store/dataset/images/pixel_writer.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;
using store::CapturedInput;
using store::InputArray;

constexpr const char* kImage = "image";
constexpr const char* kBoxes = "boxes";

// The extents of one sample in PyTorch's order, as in CapturedInput.
std::vector<std::int64_t> sample_shape(const SampleField& field) {
  if (field.name == kImage) return {field.channels, field.height, field.width};
  std::vector<std::int64_t> shape;
  for (const std::int64_t extent : {field.height, field.width, field.channels})
    if (extent > 1) shape.push_back(extent);
  return shape;
}

store::CapturedInputs inputs_of(const CheckpointModel& source) {
  if (source.model.program() != nullptr) return captured_inputs(*source.model.program());
  store::CapturedInputs inputs;
  for (const SampleField& field : source.graph.layout.fields)
    inputs.inputs.push_back({field,
                             field.type == FieldType::kF32 ? ValueType::kF32 : ValueType::kI32,
                             sample_shape(field)});
  return inputs;
}

const gpu::Graph& graph_of(const CheckpointModel& source, std::uint32_t program) {
  return program == 0 ? source.graph : source.graph.programs[program - 1];
}

// Returns the first program whose inputs have the shapes of these files; the model itself if there
// is none, so that its shapes are named as those that are allowed.
std::uint32_t program_for(const store::CapturedInputs& inputs,
                          const std::vector<std::optional<store::NpyFile>>& files) {
  const auto fits = [&](std::uint32_t program) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (!files[i]) continue;
      const std::vector<std::uint64_t>& found = files[i]->header().shape;
      if (!std::equal(found.begin() + 1, found.end(), inputs.of(program).inputs[i].shape.begin(),
                      inputs.of(program).inputs[i].shape.end(),
                      std::cmp_equal<std::uint64_t, std::int64_t>))
        return false;
    }
    return true;
  };
  for (std::uint32_t program = 0; program <= inputs.others.size(); ++program)
    if (fits(program)) return program;
  return 0;
}

// Where the arrays come from.
class ArrayPlace {
 public:
  static Result<ArrayPlace> open(const fs::path& place) {
    std::error_code code;
    if (fs::is_directory(place, code)) return ArrayPlace(place, std::nullopt);
    auto archive = store::NpzFile::open(place);
    if (!archive) return archive.error();
    return ArrayPlace(place, *std::move(archive));
  }
  Result<store::NpyFile> array(const std::string& name) const {
    return archive_ ? archive_->unpack(name) : store::NpyFile::open(place_ / (name + ".npy"));
  }

 private:
  ArrayPlace(fs::path place, std::optional<store::NpzFile> archive)
      : place_(std::move(place)), archive_(std::move(archive)) {}
  fs::path place_;
  std::optional<store::NpzFile> archive_;
};

std::string names_text(const std::vector<CapturedInput>& inputs, const std::vector<bool>& needed) {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (needed[i]) text += (text.empty() ? "" : ", ") + inputs[i].field.name;
  return text;
}

// Values for a field that only the loss reads: the smallest integer, or no box.
// They are allowed values, because the engine checks every field of a batch and computes the loss
// too, although its result is not used here.
float placeholder(const SampleField& field) {
  if (field.type == FieldType::kI32) return std::bit_cast<float>(field.low);
  return field.name == kBoxes ? -1.0F : 0.0F;
}

// An incomplete mini-batch is filled up, which must not change the outputs of its samples.
Status check_count(const CheckpointModel& source, std::uint64_t samples) {
  const ModelProgram* const program = source.model.program();
  if (program == nullptr || samples % source.spec.batch_size == 0) return {};
  for (const ModelOutput& output : program->outputs)
    if (gpu::depends_on_mini_batch(*program, output.value))
      return usage_error(std::to_string(samples) +
                         " samples: allowed is a multiple of batch_size = " +
                         std::to_string(source.spec.batch_size) + ", because the output \"" +
                         output.name + "\" depends on all samples of a mini-batch");
  return {};
}

// Writes mini-batches of the input into the form of a sample block.
class BatchWriter {
 public:
  static Result<BatchWriter> create(const CheckpointModel& source, const PredictionInput& input) {
    BatchWriter writer(source, input);
    // A job on arrays or on a Python dataset was trained on their numbers as they are.
    const SampleLayout& layout = writer.layout();
    const auto image = store::pixel_field(source.spec, layout);
    const bool has_pixels = image && input.arrays[*image] &&
                            input.arrays[*image]->file().header().type == store::NpyType::kU8;
    if (!has_pixels) return writer;
    const SampleField& field = layout.fields[*image];
    auto pixels = store::PixelWriter::create(
        {static_cast<std::uint32_t>(field.height), static_cast<std::uint32_t>(field.width),
         static_cast<std::uint32_t>(field.channels)},
        source.spec.data, source.spec.seed);
    if (!pixels) return pixels.error();
    writer.image_ = *image;
    writer.pixels_ = *std::move(pixels);
    return writer;
  }

  // Writes the samples [begin, begin + count), and the last one again until the batch is full.
  Status write(std::uint64_t begin, std::uint64_t count, std::span<float> words) {
    const SampleLayout& layout = this->layout();
    const std::uint64_t batch = source_.spec.batch_size;
    for (std::size_t f = 0; f < layout.fields.size(); ++f) {
      const auto size = static_cast<std::size_t>(layout.fields[f].words());
      const auto field =
          words.subspan(batch * static_cast<std::size_t>(layout.offset(f)), batch * size);
      // The engine computes whole mini-batches only. The outputs of the repeated samples are
      // dropped.
      for (std::uint64_t i = 0; i < batch; ++i)
        ES_RETURN_IF_ERROR(
            write_field(f, begin + std::min(i, count - 1), field.subspan(i * size, size)));
    }
    return {};
  }

 private:
  BatchWriter(const CheckpointModel& source, const PredictionInput& input)
      : source_(source), input_(input) {}

  const SampleLayout& layout() const { return graph_of(source_, input_.program).layout; }

  Status write_field(std::size_t f, std::uint64_t sample, std::span<float> words) {
    const SampleField& field = layout().fields[f];
    if (!input_.arrays[f]) {
      std::ranges::fill(words, placeholder(field));
      return {};
    }
    ES_RETURN_IF_ERROR(input_.arrays[f]->read(sample, bytes_, words));
    if (!pixels_ || f != image_) return {};
    std::vector<std::uint8_t> image(words.size());
    std::ranges::transform(words, image.begin(),
                           [](float pixel) { return static_cast<std::uint8_t>(pixel); });
    pixels_->write(image, store::View{}, words);
    return {};
  }

  const CheckpointModel& source_;
  const PredictionInput& input_;
  std::size_t image_ = 0;  // the field that pixels_ writes
  std::optional<store::PixelWriter> pixels_;
  std::vector<std::uint8_t> bytes_;
};

// The shape of an output of a built-in model that is an image; nullptr for any other output. The
// engine gives such an output as it stores images, [n,h,w,c], and PyTorch has [n,c,h,w].
const gpu::TensorShape* stored_image(const CheckpointModel& source, std::size_t output) {
  const gpu::TensorShape& shape = source.graph.shape(source.graph.outputs[output]);
  return source.model.program() == nullptr && gpu::is_image(shape) ? &shape : nullptr;
}

// Appends images of this stored shape with the channels before the lines.
void append_images(const gpu::TensorShape& stored, std::span<const float> values,
                   std::vector<float>& to) {
  const auto channels = static_cast<std::size_t>(stored[gpu::Axis::kC]);
  const auto image = static_cast<std::size_t>(gpu::image_of(stored).image());
  for (std::size_t begin = 0; begin < values.size(); begin += image)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t at = c; at < image; at += channels) to.push_back(values[begin + at]);
}

// The outputs without values; each has the shape for all samples.
std::vector<Prediction> empty_predictions(const CheckpointModel& source,
                                          const PredictionInput& input) {
  std::vector<Prediction> predictions;
  for (std::size_t i = 0; i < source.graph.outputs.size(); ++i) {
    predictions.push_back({output_name(source, i), output_extents(source, i, input.program), {}});
    predictions.back().shape.front() *= input.samples;
  }
  return predictions;
}

}  // namespace

std::vector<bool> fields_of_outputs(const gpu::Graph& graph) {
  std::vector<bool> needed(graph.tensors.size(), false);
  for (const gpu::TensorId t : graph.outputs) needed[static_cast<std::size_t>(t)] = true;
  // The operators are in the order of execution, so one pass from the last to the first finds
  // everything that an output depends on.
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    const gpu::Op& op = graph.ops[i];
    const auto is_needed = [&](gpu::TensorId t) { return needed[static_cast<std::size_t>(t)]; };
    if (std::ranges::none_of(op.out, is_needed)) continue;
    for (const gpu::TensorId t : op.in)
      if (t != gpu::kNoTensor) needed[static_cast<std::size_t>(t)] = true;
  }
  std::vector<bool> fields;
  for (const gpu::TensorId t : graph.inputs) fields.push_back(needed[static_cast<std::size_t>(t)]);
  return fields;
}

// The extents of an output, the first one for each sample. An output of a model file has a first
// extent per batch (gpu/import/check.h), so it exists and counts the rows of the samples. Another
// one per batch, as in a matrix of all pairs, stays that of a whole mini-batch, because such a
// matrix is computed for each mini-batch of its own.
std::vector<std::uint64_t> output_extents(const CheckpointModel& source, std::size_t output,
                                          std::uint32_t number) {
  std::vector<std::uint64_t> extents;
  if (const ModelProgram* const model = source.model.program()) {
    const ModelProgram* const program = number == 0 ? model : &model->programs[number - 1];
    const auto value = static_cast<std::size_t>(program->outputs[output].value);
    for (const ModelDim& dim : program->values[value].dims) {
      const bool of_batch = dim.per_batch && !extents.empty();
      extents.push_back(static_cast<std::uint64_t>(dim.size) *
                        (of_batch ? source.spec.batch_size : 1));
    }
    return extents;
  }
  const gpu::TensorShape& shape = source.graph.shape(source.graph.outputs[output]);
  extents.push_back(1);
  if (stored_image(source, output) != nullptr) {
    for (const int axis : {gpu::Axis::kC, gpu::Axis::kH, gpu::Axis::kW})
      extents.push_back(static_cast<std::uint64_t>(shape[axis]));
    return extents;
  }
  // A built-in model may have one number for a sample, and PyTorch has no axis for it.
  for (int axis = 1; axis < shape.rank(); ++axis)
    if (shape[axis] > 1) extents.push_back(static_cast<std::uint64_t>(shape[axis]));
  return extents;
}

std::string output_name(const CheckpointModel& source, std::size_t output) {
  if (source.model.program() != nullptr) return source.model.program()->outputs[output].name;
  return source.graph.outputs.size() == 1 ? "output" : "output" + std::to_string(output);
}

Result<PredictionInput> PredictionInput::open(const CheckpointModel& source,
                                              const fs::path& where) {
  const store::CapturedInputs all = inputs_of(source);
  const std::vector<bool> needed = fields_of_outputs(source.graph);
  const auto place = ArrayPlace::open(where);
  if (!place) return place.error();
  std::vector<std::optional<store::NpyFile>> files(all.inputs.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!needed[i]) continue;
    auto file = place->array(all.inputs[i].field.name);
    if (!file)
      return Error{file.error().kind, file.error().message + "; the model needs the arrays " +
                                          names_text(all.inputs, needed)};
    files[i] = *std::move(file);
  }
  PredictionInput input{.arrays = {}, .samples = 0, .program = program_for(all, files)};
  std::string first;
  for (std::size_t i = 0; i < files.size(); ++i) {
    input.arrays.emplace_back();
    if (!files[i]) continue;
    auto array = InputArray::create(*std::move(files[i]), all.of(input.program).inputs[i]);
    if (!array) return array.error();
    const std::uint64_t rows = array->file().rows();
    if (first.empty() ? rows == 0 : rows != input.samples)
      return usage_error(
          array->file().name() + ": number of samples = " + std::to_string(rows) + ": allowed is " +
          (first.empty() ? "1 and more" : std::to_string(input.samples) + ", as in " + first));
    input.samples = rows;
    first = array->file().name();
    input.arrays.back() = *std::move(array);
  }
  return input;
}

Result<std::vector<Prediction>> predict(gpu::Engine& engine, const CheckpointModel& source,
                                        const PredictionInput& input) {
  ES_RETURN_IF_ERROR(check_count(source, input.samples));
  auto writer = BatchWriter::create(source, input);
  if (!writer) return writer.error();
  std::vector<Prediction> predictions = empty_predictions(source, input);
  const std::uint64_t batch = source.spec.batch_size;
  std::vector<float> words(
      batch * static_cast<std::size_t>(graph_of(source, input.program).layout.words()));
  for (std::uint64_t begin = 0; begin < input.samples; begin += batch) {
    const std::uint64_t count = std::min(batch, input.samples - begin);
    ES_RETURN_IF_ERROR(writer->write(begin, count, words));
    // The number of the mini-batch decides its random numbers, so the outputs are the same in each
    // run.
    const auto found =
        engine.evaluate({.words = words.data(), .program = input.program}, count, begin / batch);
    if (!found) return found.error();
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      const std::span<const float> output = found->outputs[i];
      std::vector<float>& values = predictions[i].values;
      if (const gpu::TensorShape* const stored = stored_image(source, i))
        append_images(*stored, output, values);
      else
        values.insert(values.end(), output.begin(), output.end());
    }
  }
  return predictions;
}

}  // namespace es::actors::esctl
