#include "store/dataset/images/augmented_image.h"

#include "store/dataset/images/crop.h"
#include "store/dataset/images/file_image.h"
#include "store/dataset/stream_key.h"

namespace es::store {

Result<AugmentedImage> AugmentedImage::create(const JobSpec& spec) {
  const DataSpec& data = spec.data;
  const ImageShape shape{data.height, data.width, data.channels};
  if (shape.channels != 1 && shape.channels != 3)
    return usage_error("data.channels = " + std::to_string(shape.channels) +
                       ": allowed is 1 or 3 for data.kind = \"" + data.kind + "\"");
  Result<PixelWriter> writer = PixelWriter::create(shape, data, spec.seed);
  if (!writer) return writer.error();
  return AugmentedImage(spec, *std::move(writer));
}

PixelBox AugmentedImage::box(Half half, std::uint64_t epoch, std::uint64_t index,
                             const RawImage& image) const {
  if (half == Half::kTrain && random_crop_)
    return draw_crop(image.height, image.width, stream_key(seed_, DataStream::kResizedCrop, epoch),
                     index);
  return central_crop(image.height, image.width, shape(), random_crop_);
}

void AugmentedImage::write(Half half, std::uint64_t epoch, std::uint64_t index, Scratch& scratch,
                           std::span<float> out) const {
  scale_image(scratch.decoded, box(half, epoch, index, scratch.decoded), shape(), scratch.pixels);
  const View view = half == Half::kTrain ? writer_.draw_view(epoch, index) : View{};
  writer_.write(scratch.pixels, view, out);
}

}  // namespace es::store
