#pragma once
// Reads CIFAR-10's binary version: data_batch_1.bin .. data_batch_5.bin and test_batch.bin. A file
// is a row of records of 3073 bytes: the label, then 32 x 32 pixels of red, of green and of blue.
#include <filesystem>

#include "proto/base/result.h"
#include "store/dataset/images/image_dataset.h"

namespace es::store {

// A published file has 10,000 records; any whole number up to this is read.
inline constexpr std::uint64_t kCifarRecordsMax = 1'000'000;

// Errors name file, record (from 0), value and what is allowed: not found; usage (a size that is
// not a whole number of records, none or too many of them, a label that is not below `classes`).
Result<ImageDataset> read_cifar_dataset(const std::filesystem::path& directory,
                                        std::uint32_t classes);

// Its counts, from the sizes of the files. Errors: the same but for labels, which are not read.
Result<ImageCounts> count_cifar_dataset(const std::filesystem::path& directory);

}  // namespace es::store
