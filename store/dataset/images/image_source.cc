// Samples of classification whose images all have one shape. They are in memory (IDX, CIFAR-10) or
// computed (synthetic). pixel_writer.h describes augmentation and normalisation.
#include "store/dataset/sources.h"

namespace es::store {
namespace {

// The common part of both kinds: a label and the bytes of an image become a sample.
class ImageSource : public RecordSource {
 public:
  ImageSource(DataFacts facts, PixelWriter writer)
      : RecordSource(std::move(facts)), writer_(std::move(writer)) {}

  std::int32_t true_label(std::uint64_t index) const final { return label(Half::kEval, index); }

 protected:
  Status write(Half half, std::uint64_t epoch, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch& scratch) const final {
    const View view = half == Half::kTrain ? writer_.draw_view(epoch, index) : View{};
    writer_.write(pixels(half, index, scratch), view, block.field(image_field::kImage, position));
    block.set_i32(image_field::kLabel, position, 0, label(half, index));
    return {};
  }

 private:
  virtual std::int32_t label(Half half, std::uint64_t index) const = 0;
  // May use scratch.pixels as memory for the result.
  virtual std::span<const std::uint8_t> pixels(Half half, std::uint64_t index,
                                               Scratch& scratch) const = 0;

  PixelWriter writer_;
};

class MemoryImageSource final : public ImageSource {
 public:
  MemoryImageSource(ImageDataset dataset, PixelWriter writer)
      : ImageSource({.layout = image_layout(dataset.shape, dataset.classes),
                     .train_count = dataset.train.count(),
                     .eval_count = dataset.eval.count()},
                    std::move(writer)),
        dataset_(std::move(dataset)) {}

 private:
  const ImageSet& set(Half half) const {
    return half == Half::kTrain ? dataset_.train : dataset_.eval;
  }
  std::int32_t label(Half half, std::uint64_t index) const override {
    return set(half).labels[index];
  }
  std::span<const std::uint8_t> pixels(Half half, std::uint64_t index, Scratch&) const override {
    return dataset_.image(set(half), index);
  }

  ImageDataset dataset_;
};

class SyntheticImageSource final : public ImageSource {
 public:
  SyntheticImageSource(const DataSpec& spec, SyntheticImages images, PixelWriter writer)
      : ImageSource({.layout = image_layout(images.shape(), images.classes()),
                     .train_count = spec.samples,
                     .eval_count = spec.eval_samples},
                    std::move(writer)),
        images_(std::move(images)) {}

 private:
  std::int32_t label(Half, std::uint64_t index) const override { return images_.label(index); }
  std::span<const std::uint8_t> pixels(Half half, std::uint64_t index,
                                       Scratch& scratch) const override {
    scratch.pixels.resize(images_.shape().pixel_bytes());
    images_.draw(half, index, scratch.pixels);
    return scratch.pixels;
  }

  SyntheticImages images_;
};

}  // namespace

Result<std::shared_ptr<const SampleSource>> memory_source(ImageDataset dataset,
                                                          const DataSpec& spec,
                                                          std::uint64_t seed) {
  Result<PixelWriter> writer = PixelWriter::create(dataset.shape, spec, seed);
  if (!writer) return writer.error();
  return std::shared_ptr<const SampleSource>(
      std::make_shared<MemoryImageSource>(std::move(dataset), *std::move(writer)));
}

Result<std::shared_ptr<const SampleSource>> synthetic_image_source(const DataSpec& spec,
                                                                   std::uint32_t classes,
                                                                   std::uint64_t seed) {
  const ImageShape shape{spec.height, spec.width, spec.channels};
  Result<PixelWriter> writer = PixelWriter::create(shape, spec, seed);
  if (!writer) return writer.error();
  return std::shared_ptr<const SampleSource>(std::make_shared<SyntheticImageSource>(
      spec, SyntheticImages(shape, classes), *std::move(writer)));
}

}  // namespace es::store
