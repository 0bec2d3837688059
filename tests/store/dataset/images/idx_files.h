#pragma once
// Writes small IDX datasets for tests.
#include <zlib.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/store/temp_directory.h"

namespace es::test {

inline constexpr std::array<const char*, 4> kIdxNames = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte"};

inline std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

inline std::string idx_header(const std::vector<std::uint32_t>& sizes) {
  std::string bytes = big_endian(0x800 + static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint32_t size : sizes) bytes += big_endian(size);
  return bytes;
}

// Pixel p of image i is (7 * i + p) mod 256.
inline std::string idx_images(std::uint32_t count, std::uint32_t height, std::uint32_t width) {
  std::string bytes = idx_header({count, height, width});
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t p = 0; p < height * width; ++p)
      bytes.push_back(static_cast<char>(7 * i + p));
  return bytes;
}

// Label i is i mod classes.
inline std::string idx_labels(std::uint32_t count, std::uint32_t classes) {
  std::string bytes = idx_header({count});
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i % classes));
  return bytes;
}

inline std::string gzip(const std::string& plain) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, plain.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// 6 training and 4 evaluation images of 3 x 5 pixels in 3 classes.
inline std::array<std::string, 4> small_idx_set() {
  return {idx_images(6, 3, 5), idx_labels(6, 3), idx_images(4, 3, 5), idx_labels(4, 3)};
}

inline void write_idx_set(const std::filesystem::path& directory,
                          const std::array<std::string, 4>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) write_file(directory / kIdxNames[i], files[i]);
}

}  // namespace es::test
