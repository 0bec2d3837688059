#include "store/dataset/images/idx_reader.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "store/byte_source.h"
#include "store/field_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = std::size_t{16} << 20;
constexpr const char* kSizeNames[] = {"count", "height", "width"};

template <std::size_t D>
constexpr std::uint64_t header_bytes = 4 + 4 * D;

std::string hex(std::uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

// One IDX file of bytes with D dimensions.
template <std::size_t D>
struct IdxArray {
  std::string file;
  std::uint64_t bytes = 0;  // size of the payload according to the header
  std::array<std::uint32_t, D> sizes{};
  std::vector<std::uint8_t> payload;
};

// Returns the plain file if it exists, otherwise the compressed one.
Result<fs::path> locate(const fs::path& directory, const std::string& name) {
  std::error_code ignored;
  for (const fs::path& file : {directory / name, directory / (name + ".gz")})
    if (fs::exists(file, ignored)) return file;
  return not_found((directory / name).string() + ": no such file, and none with .gz after it");
}

Result<std::uint32_t> read_u32(ByteSource& source, const std::string& file,
                               const std::string& field) {
  std::array<std::uint8_t, 4> bytes{};
  const Result<std::size_t> got = source.read(bytes);
  if (!got) return got.error();
  if (*got != bytes.size()) return bad_field(file, field, "(end of file)", "a complete IDX header");
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

Error wrong_payload(const std::string& file, const std::string& found, std::uint64_t bytes) {
  return bad_field(file, "bytes after the header", found,
                   std::to_string(bytes) + ", as the sizes in its header say");
}

// Reads and checks the magic number and the sizes, which give the size of the payload.
template <std::size_t D>
Status read_header(ByteSource& source, IdxArray<D>& array) {
  // 0x08 stands for unsigned bytes, and the last byte is the number of dimensions.
  constexpr std::uint32_t kMagic = 0x0800 + D;
  const Result<std::uint32_t> magic = read_u32(source, array.file, "magic number");
  if (!magic) return magic.error();
  if (*magic != kMagic)
    return bad_content(array.file, "magic number",
                       hex(kMagic) + " (unsigned bytes, " + std::to_string(D) + " dimension(s))");
  std::uint64_t bytes = 1;
  for (std::size_t d = 0; d < D; ++d) {
    const Result<std::uint32_t> size = read_u32(source, array.file, kSizeNames[d]);
    if (!size) return size.error();
    const std::uint32_t largest = d == 0 ? kIdxCountMax : kIdxSideMax;
    // The limits of the sides keep the product below from overflowing 64 bits.
    if (*size < 1 || *size > largest)
      return bad_content(array.file, kSizeNames[d], "1 to " + std::to_string(largest));
    array.sizes[d] = *size;
    bytes *= *size;
  }
  if (bytes > kIdxPayloadBytesMax)
    return bad_field(array.file, "size of all images in bytes", std::to_string(bytes),
                     "at most " + std::to_string(kIdxPayloadBytesMax));
  array.bytes = bytes;
  const std::optional<std::uint64_t> size = source.plain_bytes();
  if (size && *size - header_bytes<D> != bytes)
    return wrong_payload(array.file, std::to_string(*size - header_bytes<D>), bytes);
  return {};
}

// Reads exactly the payload and checks that the file ends there. Memory grows piece by piece with
// the bytes that are actually read.
template <std::size_t D>
Status read_payload(ByteSource& source, IdxArray<D>& array) {
  std::vector<std::uint8_t>& payload = array.payload;
  while (payload.size() < array.bytes) {
    const std::size_t before = payload.size();
    const std::size_t piece = std::min<std::uint64_t>(kPieceBytes, array.bytes - before);
    payload.resize(before + piece);
    const Result<std::size_t> got = source.read(std::span(payload).subspan(before));
    if (!got) return got.error();
    if (*got < piece) return wrong_payload(array.file, std::to_string(before + *got), array.bytes);
  }
  std::array<std::uint8_t, 1> extra{};
  const Result<std::size_t> got = source.read(extra);
  if (!got) return got.error();
  if (*got != 0) return wrong_payload(array.file, "more", array.bytes);
  return {};
}

enum class Payload { kRead, kSkip };

template <std::size_t D>
Result<IdxArray<D>> read_idx(const fs::path& directory, const std::string& name, Payload payload) {
  const Result<fs::path> file = locate(directory, name);
  if (!file) return file.error();
  Result<ByteSource> source = ByteSource::open(*file);
  if (!source) return source.error();
  IdxArray<D> array;
  array.file = file->string();
  ES_RETURN_IF_ERROR(read_header(*source, array));
  // A compressed file whose end contradicts its header is read although its payload is not needed.
  // Only reading tells what is wrong.
  const std::optional<std::uint32_t> promised = source->promised_bytes();
  const bool doubtful =
      promised && *promised != static_cast<std::uint32_t>(header_bytes<D> + array.bytes);
  if (payload == Payload::kRead || doubtful) ES_RETURN_IF_ERROR(read_payload(*source, array));
  return array;
}

Result<std::vector<std::int32_t>> checked_labels(const IdxArray<1>& labels, std::uint32_t classes) {
  for (std::size_t i = 0; i < labels.payload.size(); ++i)
    if (labels.payload[i] >= classes)
      return bad_content(labels.file, "label " + std::to_string(i),
                         "0 to " + std::to_string(classes - 1) +
                             " (model.classes = " + std::to_string(classes) + ")");
  return std::vector<std::int32_t>(labels.payload.begin(), labels.payload.end());
}

struct IdxHalf {
  std::string images_file;
  ImageShape shape;
  ImageSet set;
};

Result<IdxHalf> read_half(const fs::path& directory, const std::string& prefix,
                          std::uint32_t classes, Payload pixels) {
  Result<IdxArray<1>> labels =
      read_idx<1>(directory, prefix + "-labels-idx1-ubyte", Payload::kRead);
  if (!labels) return labels.error();
  Result<IdxArray<3>> images = read_idx<3>(directory, prefix + "-images-idx3-ubyte", pixels);
  if (!images) return images.error();
  if (labels->sizes[0] != images->sizes[0])
    return bad_field(labels->file, "count", std::to_string(labels->sizes[0]),
                     std::to_string(images->sizes[0]) + ", the count of " + images->file);
  Result<std::vector<std::int32_t>> checked = checked_labels(*labels, classes);
  if (!checked) return checked.error();
  return IdxHalf{images->file, ImageShape{images->sizes[1], images->sizes[2], 1},
                 ImageSet{std::move(images->payload), std::move(*checked)}};
}

std::string text(const ImageShape& shape) {
  return std::to_string(shape.height) + "x" + std::to_string(shape.width);
}

Result<ImageDataset> read_dataset(const fs::path& directory, std::uint32_t classes,
                                  Payload pixels) {
  ES_CHECK(classes > 0);
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored))
    return not_found("data.path = \"" + directory.string() +
                     "\": allowed is a directory with IDX files (it does not exist)");
  Result<IdxHalf> train = read_half(directory, "train", classes, pixels);
  if (!train) return train.error();
  Result<IdxHalf> eval = read_half(directory, "t10k", classes, pixels);
  if (!eval) return eval.error();
  if (eval->shape != train->shape)
    return bad_field(eval->images_file, "height x width", text(eval->shape),
                     text(train->shape) + ", as in " + train->images_file);
  return ImageDataset{train->shape, classes, std::move(train->set), std::move(eval->set)};
}

}  // namespace

Result<ImageDataset> read_idx_dataset(const fs::path& directory, std::uint32_t classes) {
  return read_dataset(directory, classes, Payload::kRead);
}

Result<ImageCounts> count_idx_dataset(const fs::path& directory, std::uint32_t classes) {
  const Result<ImageDataset> dataset = read_dataset(directory, classes, Payload::kSkip);
  if (!dataset) return dataset.error();
  return ImageCounts{dataset->shape, dataset->train.count(), dataset->eval.count()};
}

}  // namespace es::store
