#include "store/dataset/images/cifar_reader.h"

#include <string>

#include "store/byte_source.h"
#include "store/dataset/record_source.h"
#include "store/field_error.h"
#include "store/file_bytes.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSide = 32, kChannels = 3;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::size_t kRecordBytes = 1 + kChannels * kPlane;
constexpr std::uint64_t kFileBytesMax = kCifarRecordsMax * kRecordBytes;
constexpr ImageShape kShape{kSide, kSide, kChannels};

// Converts planes of red, green and blue to pixels.
void append_pixels(std::string_view planes, std::vector<std::uint8_t>& pixels) {
  for (std::size_t p = 0; p < kPlane; ++p)
    for (std::size_t c = 0; c < kChannels; ++c)
      pixels.push_back(static_cast<std::uint8_t>(planes[c * kPlane + p]));
}

Result<std::uint64_t> records_in(const fs::path& file, std::uint64_t bytes) {
  if (bytes != 0 && bytes % kRecordBytes == 0 && bytes <= kFileBytesMax)
    return bytes / kRecordBytes;
  return bad_field(
      file.string(), "size in bytes", std::to_string(bytes),
      "a multiple of 3073, the bytes of a record, from 3073 to " + std::to_string(kFileBytesMax));
}

Status append_file(const fs::path& file, std::uint32_t classes, ImageSet& set) {
  const Result<std::string> bytes = file_bytes(file, kFileBytesMax);
  if (!bytes) return bytes.error();
  const Result<std::uint64_t> records = records_in(file, bytes->size());
  if (!records) return records.error();
  set.pixels.reserve(set.pixels.size() + *records * (kRecordBytes - 1));
  for (std::size_t r = 0; r < *records; ++r) {
    const std::string_view record = std::string_view(*bytes).substr(r * kRecordBytes, kRecordBytes);
    const auto label = static_cast<std::uint8_t>(record[0]);
    if (label >= classes)
      return bad_content(file.string(), "label of record " + std::to_string(r),
                         "0 to " + std::to_string(classes - 1) +
                             " (model.classes = " + std::to_string(classes) + ")");
    set.labels.push_back(label);
    append_pixels(record.substr(1), set.pixels);
  }
  return {};
}

Result<std::uint64_t> count_file(const fs::path& file) {
  const Result<ByteSource> source = ByteSource::open(file);
  if (!source) return source.error();
  // The size of a plain file gives the number of records. A compressed file has to be read for
  // that.
  if (const auto size = source->plain_bytes()) return records_in(file, *size);
  const Result<std::string> bytes = file_bytes(file, kFileBytesMax);
  if (!bytes) return bytes.error();
  return records_in(file, bytes->size());
}

// Calls `take(half, file)` for each file of the data set.
template <class Take>
Status for_each_file(const fs::path& directory, Take take) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored))
    return not_found("data.path = \"" + directory.string() +
                     "\": allowed is a directory with CIFAR-10's .bin files (it does not exist)");
  for (int i = 1; i <= 5; ++i)
    ES_RETURN_IF_ERROR(
        take(Half::kTrain, directory / ("data_batch_" + std::to_string(i) + ".bin")));
  return take(Half::kEval, directory / "test_batch.bin");
}

}  // namespace

Result<ImageDataset> read_cifar_dataset(const fs::path& directory, std::uint32_t classes) {
  ImageDataset dataset{kShape, classes, {}, {}};
  ES_RETURN_IF_ERROR(for_each_file(directory, [&](Half half, const fs::path& file) {
    return append_file(file, classes, half == Half::kTrain ? dataset.train : dataset.eval);
  }));
  return dataset;
}

Result<ImageCounts> count_cifar_dataset(const fs::path& directory) {
  ImageCounts counts{.shape = kShape, .train = 0, .eval = 0};
  ES_RETURN_IF_ERROR(for_each_file(directory, [&](Half half, const fs::path& file) {
    const Result<std::uint64_t> records = count_file(file);
    if (!records) return Status(records.error());
    (half == Half::kTrain ? counts.train : counts.eval) += *records;
    return Status();
  }));
  return counts;
}

}  // namespace es::store
