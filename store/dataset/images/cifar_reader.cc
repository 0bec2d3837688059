#include "store/dataset/images/cifar_reader.h"

#include <string>

#include "store/dataset/field_error.h"
#include "store/dataset/file_bytes.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSide = 32, kChannels = 3;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::size_t kRecordBytes = 1 + kChannels * kPlane;

// Planes of red, green and blue to pixels.
void append_pixels(std::string_view planes, std::vector<std::uint8_t>& pixels) {
  for (std::size_t p = 0; p < kPlane; ++p)
    for (std::size_t c = 0; c < kChannels; ++c)
      pixels.push_back(static_cast<std::uint8_t>(planes[c * kPlane + p]));
}

Status append_file(const fs::path& file, std::uint32_t classes, ImageSet& set) {
  const Result<std::string> bytes = file_bytes(file, kCifarRecordsMax * kRecordBytes);
  if (!bytes) return bytes.error();
  if (bytes->empty() || bytes->size() % kRecordBytes != 0)
    return bad_field(file.string(), "size in bytes", std::to_string(bytes->size()),
                     "a multiple of 3073, the bytes of a record, and not 0");
  const std::size_t records = bytes->size() / kRecordBytes;
  set.pixels.reserve(set.pixels.size() + records * (kRecordBytes - 1));
  for (std::size_t r = 0; r < records; ++r) {
    const std::string_view record = std::string_view(*bytes).substr(r * kRecordBytes, kRecordBytes);
    const auto label = static_cast<std::uint8_t>(record[0]);
    if (label >= classes)
      return bad_field(file.string(), "label of record " + std::to_string(r), std::to_string(label),
                       "0 to " + std::to_string(classes - 1) +
                           " (model.classes = " + std::to_string(classes) + ")");
    set.labels.push_back(label);
    append_pixels(record.substr(1), set.pixels);
  }
  return {};
}

}  // namespace

Result<ImageDataset> read_cifar_dataset(const fs::path& directory, std::uint32_t classes) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored))
    return not_found("data.path = \"" + directory.string() +
                     "\": allowed is a directory with CIFAR-10's .bin files (it does not exist)");
  ImageDataset dataset{{kSide, kSide, kChannels}, classes, {}, {}};
  for (int i = 1; i <= 5; ++i)
    ES_RETURN_IF_ERROR(append_file(directory / ("data_batch_" + std::to_string(i) + ".bin"),
                                   classes, dataset.train));
  ES_RETURN_IF_ERROR(append_file(directory / "test_batch.bin", classes, dataset.eval));
  return dataset;
}

}  // namespace es::store
