#include "store/dataset/images/file_image.h"

#include "proto/base/check.h"
#include "store/file_bytes.h"

namespace es::store {
namespace {

void make_grey(std::vector<std::uint8_t>& pixels) {
  const std::size_t count = pixels.size() / 3;
  for (std::size_t p = 0; p < count; ++p)
    pixels[p] = static_cast<std::uint8_t>((19595u * pixels[3 * p] + 38470u * pixels[3 * p + 1] +
                                           7471u * pixels[3 * p + 2] + 32768u) >>
                                          16);
  pixels.resize(count);
}

}  // namespace

Status read_image(const std::filesystem::path& file, RawImage& image, const std::string& where) {
  const Result<std::string> bytes = file_bytes(file, kImageFileBytesMax, where);
  if (!bytes) return bytes.error();
  return decode_image(*bytes, where.empty() ? file.string() : where, image);
}

void scale_image(const RawImage& image, const PixelBox& box, const ImageShape& shape,
                 std::vector<std::uint8_t>& pixels) {
  ES_CHECK(shape.channels == 1 || shape.channels == 3);
  pixels.resize(std::size_t{shape.height} * shape.width * 3);
  resize_bilinear(image, box, shape.height, shape.width, pixels);
  if (shape.channels == 1) make_grey(pixels);
}

}  // namespace es::store
