// Samples of detection: an image of data.height x data.width and at most data.boxes boxes. Unused
// places have class -1 and zeros. A mirrored image (data.flip) has mirrored boxes.
//
// voc: images are resized as a whole, without keeping their aspect ratio. Boxes are parts of the
// sides, so they remain right. Difficult objects are not part of a sample, and are not counted in
// evaluation.
#include "store/dataset/sources.h"

#include <algorithm>
#include <filesystem>

#include "store/dataset/boxes/synthetic_boxes.h"
#include "store/dataset/boxes/voc_reader.h"
#include "store/dataset/images/file_image.h"
#include "store/dataset/images/pixel_writer.h"
#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::uint32_t kSideMin = 8;

// The common part of both kinds: pixels and boxes become a sample.
class BoxSource : public RecordSource {
 public:
  BoxSource(DataFacts facts, PixelWriter writer)
      : RecordSource(std::move(facts)), writer_(std::move(writer)) {}

 protected:
  const ImageShape& shape() const { return writer_.shape(); }

  Status write(Half half, std::uint64_t epoch, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch& scratch) const final {
    ES_RETURN_IF_ERROR(draw(half, index, scratch));
    const View view = half == Half::kTrain ? writer_.draw_view(epoch, index) : View{};
    writer_.write(scratch.pixels, view, block.field(box_field::kImage, position));
    write_boxes(boxes(half, index), view.mirrored, block.field(box_field::kBoxes, position));
    return {};
  }

 private:
  // Computes scratch.pixels.
  virtual Status draw(Half half, std::uint64_t index, Scratch& scratch) const = 0;
  virtual std::vector<TrueBox> boxes(Half half, std::uint64_t index) const = 0;

  // REQUIRES: `out` has room for the boxes that are not difficult.
  static void write_boxes(const std::vector<TrueBox>& boxes, bool mirrored, std::span<float> out) {
    std::size_t at = 0;
    for (const TrueBox& box : boxes) {
      if (box.difficult) continue;
      const float values[] = {static_cast<float>(box.label), mirrored ? 1.0f - box.x : box.x, box.y,
                              box.w, box.h};
      std::ranges::copy(values, out.subspan(at).begin());
      at += std::size(values);
    }
    // A box has 5 words. The label -1 marks a place without a box.
    for (; at < out.size(); ++at) out[at] = at % 5 == 0 ? -1.0f : 0.0f;
  }

  PixelWriter writer_;
};

class VocSource final : public BoxSource {
 public:
  VocSource(DataFacts facts, PixelWriter writer, std::filesystem::path root,
            std::vector<VocImage> train, std::vector<VocImage> eval)
      : BoxSource(std::move(facts), std::move(writer)),
        root_(std::move(root)),
        train_(std::move(train)),
        eval_(std::move(eval)) {}

  std::vector<TrueBox> true_boxes(std::uint64_t index) const override { return eval_[index].boxes; }

 private:
  const VocImage& image(Half half, std::uint64_t index) const {
    return half == Half::kTrain ? train_[index] : eval_[index];
  }
  std::vector<TrueBox> boxes(Half half, std::uint64_t index) const override {
    return image(half, index).boxes;
  }

  Status draw(Half half, std::uint64_t index, Scratch& scratch) const override {
    const VocImage& annotated = image(half, index);
    const std::filesystem::path file = root_ / "JPEGImages" / (annotated.name + ".jpg");
    const std::string where =
        voc_place(root_, half == Half::kTrain ? "train" : "val", index, "its file in JPEGImages");
    ES_RETURN_IF_ERROR(read_image(file, scratch.decoded, where));
    const RawImage& decoded = scratch.decoded;
    // Boxes are parts of the annotated size. With another image they would lie in wrong places.
    if (decoded.height != annotated.height || decoded.width != annotated.width)
      return bad_content(where, "height x width", "what its annotation says");
    scale_image(decoded, {0, 0, decoded.height, decoded.width}, shape(), scratch.pixels);
    return {};
  }

  std::filesystem::path root_;
  std::vector<VocImage> train_, eval_;
};

class SyntheticBoxSource final : public BoxSource {
 public:
  SyntheticBoxSource(DataFacts facts, PixelWriter writer, SyntheticBoxes images)
      : BoxSource(std::move(facts), std::move(writer)), images_(std::move(images)) {}

  std::vector<TrueBox> true_boxes(std::uint64_t index) const override {
    return images_.boxes(Half::kEval, index);
  }

 private:
  Status draw(Half half, std::uint64_t index, Scratch& scratch) const override {
    scratch.pixels.resize(shape().pixel_bytes());
    images_.draw(half, index, scratch.pixels);
    return {};
  }
  std::vector<TrueBox> boxes(Half half, std::uint64_t index) const override {
    return images_.boxes(half, index);
  }

  SyntheticBoxes images_;
};

Result<PixelWriter> make_writer(const JobSpec& spec) {
  const DataSpec& data = spec.data;
  const std::string detection = " for detection";
  if (data.channels != 3)
    return usage_error("data.channels = " + std::to_string(data.channels) + ": allowed is 3" +
                       detection);
  if (data.crop_padding != 0)
    return usage_error("data.crop_padding = " + std::to_string(data.crop_padding) +
                       ": allowed is 0" + detection);
  return PixelWriter::create({data.height, data.width, data.channels}, data, spec.seed);
}

Status check_boxes(const std::filesystem::path& root, const std::string& set,
                   const std::vector<VocImage>& images, std::uint32_t most) {
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto count = std::ranges::count(images[i].boxes, false, &TrueBox::difficult);
    if (static_cast<std::uint64_t>(count) > most)
      return bad_field(voc_place(root, set, i, "its file in Annotations"), "objects",
                       std::to_string(count), "at most data.boxes = " + std::to_string(most));
  }
  return {};
}

Result<std::vector<std::string>> classes_of(const JobSpec& spec) {
  Result<std::vector<std::string>> classes = read_voc_classes(spec.data.path);
  if (classes.ok() && classes->size() != spec.model.classes)
    return bad_field(spec.data.path, "classes", std::to_string(classes->size()),
                     "model.classes = " + std::to_string(spec.model.classes));
  return classes;
}

}  // namespace

Result<DataFacts> voc_facts(const JobSpec& spec) {
  const Result<PixelWriter> writer = make_writer(spec);
  if (!writer) return writer.error();
  if (const auto classes = classes_of(spec); !classes) return classes.error();
  const auto train = read_voc_names(spec.data.path, "train");
  if (!train) return train.error();
  const auto eval = read_voc_names(spec.data.path, "val");
  if (!eval) return eval.error();
  return DataFacts{.layout = box_layout(writer->shape(), spec.data.boxes),
                   .train_count = train->size(),
                   .eval_count = eval->size()};
}

Result<std::shared_ptr<const SampleSource>> voc_source(const JobSpec& spec) {
  Result<PixelWriter> writer = make_writer(spec);
  if (!writer) return writer.error();
  const std::filesystem::path root = spec.data.path;
  const Result<std::vector<std::string>> classes = classes_of(spec);
  if (!classes) return classes.error();
  Result<std::vector<VocImage>> train = read_voc_set(root, "train", *classes);
  if (!train) return train.error();
  Result<std::vector<VocImage>> eval = read_voc_set(root, "val", *classes);
  if (!eval) return eval.error();
  ES_RETURN_IF_ERROR(check_boxes(root, "train", *train, spec.data.boxes));
  ES_RETURN_IF_ERROR(check_boxes(root, "val", *eval, spec.data.boxes));
  DataFacts facts{.layout = box_layout(writer->shape(), spec.data.boxes),
                  .train_count = train->size(),
                  .eval_count = eval->size()};
  return std::shared_ptr<const SampleSource>(std::make_shared<VocSource>(
      std::move(facts), *std::move(writer), root, *std::move(train), *std::move(eval)));
}

Result<std::shared_ptr<const SampleSource>> synthetic_box_source(const JobSpec& spec) {
  Result<PixelWriter> writer = make_writer(spec);
  if (!writer) return writer.error();
  const ImageShape shape = writer->shape();
  if (shape.height < kSideMin || shape.width < kSideMin)
    return usage_error("data.height x data.width = " + std::to_string(shape.height) + "x" +
                       std::to_string(shape.width) + ": allowed is at least " +
                       std::to_string(kSideMin) + " a side for synthetic detection");
  DataFacts facts{.layout = box_layout(shape, spec.data.boxes),
                  .train_count = spec.data.samples,
                  .eval_count = spec.data.eval_samples};
  return std::shared_ptr<const SampleSource>(std::make_shared<SyntheticBoxSource>(
      std::move(facts), *std::move(writer),
      SyntheticBoxes(shape, spec.model.classes, spec.data.boxes)));
}

}  // namespace es::store
