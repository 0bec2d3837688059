#pragma once
// Converts an image file to the pixels of a sample.
#include <filesystem>

#include "store/dataset/images/raw_image.h"
#include "store/dataset/images/resize.h"
#include "store/dataset/layouts.h"

namespace es::store {

// Reads and decodes a file. `where` replaces its path in errors; if empty, the path is used.
// Errors: as file_bytes and decode_image.
Status read_image(const std::filesystem::path& file, RawImage& image,
                  const std::string& where = {});

// Resizes the box to `shape`, as red, green and blue, or as grey if shape.channels = 1. Grey is
// (19595 red + 38470 green + 7471 blue + 32768) / 65536. REQUIRES: 1 or 3 channels.
void scale_image(const RawImage& image, const PixelBox& box, const ImageShape& shape,
                 std::vector<std::uint8_t>& pixels);

}  // namespace es::store
