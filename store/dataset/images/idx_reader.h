#pragma once
// Reads the IDX format of the MNIST family (MNIST, Fashion-MNIST, KMNIST): a 32-bit magic number
// (0x00000800 + number of dimensions, for unsigned bytes), one 32-bit size per dimension, all
// big-endian, then one byte per element.
//
//   train-images-idx3-ubyte, t10k-images-idx3-ubyte   0x00000803  [count, height, width]
//   train-labels-idx1-ubyte, t10k-labels-idx1-ubyte   0x00000801  [count]
//
// Each may also be compressed, with ".gz" after its name. The names are the ones under which all of
// these sets are published. Nothing in a header is believed before it was checked, and memory grows
// with the bytes that really arrive, so a damaged or hostile file costs one error, not the process.
#include <filesystem>

#include "proto/base/result.h"
#include "store/dataset/images/image_dataset.h"

namespace es::store {

// Allowed sizes, far above any published set of this format.
inline constexpr std::uint32_t kIdxCountMax = 10'000'000;
inline constexpr std::uint32_t kIdxSideMax = 4096;
inline constexpr std::uint64_t kIdxPayloadBytesMax = std::uint64_t{4} << 30;

// Reads the four files of `directory`; channels = 1.
// Errors name the file, the field and what is allowed: not found (directory or file),
// usage (magic, sizes, counts of images and labels that differ, a file that is too short or too
// long, damaged compression, a label that is not below `classes`).
Result<ImageDataset> read_idx_dataset(const std::filesystem::path& directory,
                                      std::uint32_t classes);

// Its counts, from the labels (which are checked) and the headers of the images. Errors: the same,
// but for pixels that are missing from a compressed file or follow its end.
Result<ImageCounts> count_idx_dataset(const std::filesystem::path& directory,
                                      std::uint32_t classes);

}  // namespace es::store
