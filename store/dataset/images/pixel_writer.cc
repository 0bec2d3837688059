#include "store/dataset/images/pixel_writer.h"

#include "proto/base/check.h"
#include "proto/base/job_fields.h"
#include "store/dataset/stream_key.h"

namespace es::store {
namespace {

void fill_values(float mean, float deviation, std::array<float, 256>& values) {
  for (int pixel = 0; pixel < 256; ++pixel)
    values[pixel] = (static_cast<float>(pixel) / 255.0f - mean) / deviation;
}

constexpr Normalisation kHalf{{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
constexpr Normalisation kImagenet{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};

}  // namespace

const Normalisation& normalisation(const DataSpec& spec) {
  return spec.normalise == "imagenet" ? kImagenet : kHalf;
}

std::optional<std::size_t> pixel_field(const JobSpec& spec, const SampleLayout& layout) {
  // Synthetic data of a captured model may be of any task. Only images begin with numbers.
  const bool begins_with_an_image = job_fields::has_images(spec) && !layout.fields.empty() &&
                                    layout.fields[image_field::kImage].type == FieldType::kF32;
  static_assert(image_field::kImage == box_field::kImage);
  return begins_with_an_image ? std::optional(image_field::kImage) : std::nullopt;
}

Result<PixelWriter> PixelWriter::create(const ImageShape& shape, const DataSpec& spec,
                                        std::uint64_t seed) {
  PixelWriter writer;
  writer.shape_ = shape;
  writer.by_channel_ = spec.normalise == "imagenet";
  if (writer.by_channel_ && shape.channels != 3)
    return usage_error("data.normalise = \"imagenet\": allowed is \"half\" for images with " +
                       std::to_string(shape.channels) + " channel(s), which are not 3");
  const Normalisation& of_job = normalisation(spec);
  for (std::size_t c = 0; c < 3; ++c)
    fill_values(of_job.mean[c], of_job.deviation[c], writer.table_[c]);
  writer.crop_padding_ = spec.crop_padding;
  writer.flip_ = spec.flip;
  writer.seed_ = seed;
  return writer;
}

View PixelWriter::draw_view(std::uint64_t epoch, std::uint64_t sample) const {
  // The view depends on the seed, the epoch and the sample only. So a sample looks the same on
  // whichever device and in whichever order it is read.
  const PhiloxKey key = stream_key(seed_, DataStream::kAugmentation, epoch);
  const auto words = philox4x32_10(index_counter(sample), key);
  return {.offset_y = std::int64_t{below(2 * crop_padding_ + 1, words[0])} - crop_padding_,
          .offset_x = std::int64_t{below(2 * crop_padding_ + 1, words[1])} - crop_padding_,
          .mirrored = flip_ && (words[2] >> 31) != 0};
}

void PixelWriter::write_row(std::span<const std::uint8_t> source, const View& view,
                            std::span<float> out) const {
  const std::size_t channels = shape_.channels;
  for (std::int64_t x = 0; x < shape_.width; ++x) {
    const std::int64_t column = (view.mirrored ? shape_.width - 1 - x : x) + view.offset_x;
    const bool inside = column >= 0 && column < shape_.width;
    for (std::uint32_t c = 0; c < channels; ++c)
      out[x * channels + c] = values(c)[inside ? source[column * channels + c] : 0];
  }
}

void PixelWriter::write_padding(std::span<float> row) const {
  // The padding is pixels of value 0 before they are normalised, so it is not 0 afterwards.
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = values(i % shape_.channels)[0];
}

void PixelWriter::write(std::span<const std::uint8_t> pixels, const View& view,
                        std::span<float> out) const {
  ES_CHECK(pixels.size() == shape_.pixel_bytes() && out.size() == pixels.size());
  const std::size_t row_size = std::size_t{shape_.width} * shape_.channels;
  for (std::int64_t y = 0; y < shape_.height; ++y) {
    const std::span<float> out_row = out.subspan(y * row_size, row_size);
    const std::int64_t row = y + view.offset_y;
    if (row < 0 || row >= shape_.height)
      write_padding(out_row);
    else
      write_row(pixels.subspan(row * row_size, row_size), view, out_row);
  }
}

}  // namespace es::store
