#pragma once
// Reads the binary version of CIFAR-10: data_batch_1.bin .. data_batch_5.bin and test_batch.bin. A
// file is a sequence of records of 3073 bytes: the label, then 32 x 32 pixels of red, of green and
// of blue.
#include <filesystem>

#include "proto/base/result.h"
#include "store/dataset/images/image_dataset.h"

namespace es::store {

// Limit of records in a file. A published file has 10,000 records; any number up to this is read.
inline constexpr std::uint64_t kCifarRecordsMax = 1'000'000;

// Errors name the file, the record (from 0) and what is allowed: not found; usage (the size is not
// a whole number of records, there are none or too many, or a label is not below `classes`).
Result<ImageDataset> read_cifar_dataset(const std::filesystem::path& directory,
                                        std::uint32_t classes);

// The counts of the data set, from the sizes of the files. Errors: the same, except for labels,
// which are not read.
Result<ImageCounts> count_cifar_dataset(const std::filesystem::path& directory);

}  // namespace es::store
