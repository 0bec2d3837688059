#include "store/dataset/images/raw_image.h"

#include "store/field_error.h"

namespace es::store {

Status check_image_size(const std::string& file, std::uint64_t height, std::uint64_t width) {
  const std::string size = std::to_string(height) + "x" + std::to_string(width);
  if (height < 1 || height > kImageSideMax || width < 1 || width > kImageSideMax)
    return bad_field(file, "height x width", size, "1 to " + std::to_string(kImageSideMax));
  if (height * width > kImagePixelsMax)
    return bad_field(file, "height x width", size,
                     "at most " + std::to_string(kImagePixelsMax) + " pixels");
  return {};
}

Status decode_image(std::string_view bytes, const std::string& file, RawImage& image) {
  if (bytes.starts_with("\xff\xd8")) return decode_jpeg(bytes, file, image);
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, file, image);
  return usage_error(file + ": does not begin as an image does: allowed is a JPEG or PNG image");
}

}  // namespace es::store
