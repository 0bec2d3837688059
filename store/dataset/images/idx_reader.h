#pragma once
// Reads the IDX format of the MNIST family (MNIST, Fashion-MNIST, KMNIST). A file has a 32-bit
// magic number (0x00000800 plus the number of dimensions, for unsigned bytes), one 32-bit size for
// each dimension, all big-endian, and then one byte for each element.
//
//   train-images-idx3-ubyte, t10k-images-idx3-ubyte   0x00000803  [count, height, width]
//   train-labels-idx1-ubyte, t10k-labels-idx1-ubyte   0x00000801  [count]
//
// The names are those under which these data sets are published. Each file may be compressed, with
// ".gz" after its name. A header is checked before it is used, and memory grows with the bytes that
// are actually read, so a damaged or hostile file gives an error and never ends the process.
#include <filesystem>

#include "proto/base/result.h"
#include "store/dataset/images/image_dataset.h"

namespace es::store {

// Allowed sizes, far above those of any published data set of this format.
inline constexpr std::uint32_t kIdxCountMax = 10'000'000;
inline constexpr std::uint32_t kIdxSideMax = 4096;
inline constexpr std::uint64_t kIdxPayloadBytesMax = std::uint64_t{4} << 30;

// Reads the four files of `directory`; channels = 1. Errors name the file, the field and what is
// allowed: not found (directory or file), usage (magic number, sizes, different counts of images
// and labels, a file that is too short or too long, damaged compression, a label that is not below
// `classes`).
Result<ImageDataset> read_idx_dataset(const std::filesystem::path& directory,
                                      std::uint32_t classes);

// The counts of the data set, from the labels, which are checked, and the headers of the images.
// Errors: the same, except for pixels that are missing in a compressed file or follow its end.
Result<ImageCounts> count_idx_dataset(const std::filesystem::path& directory,
                                      std::uint32_t classes);

}  // namespace es::store
