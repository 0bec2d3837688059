#include "store/safetensors/safetensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "store/checkpoint/new_file.h"
#include "store/safetensors/header.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kDigestBlockBytes = std::size_t{1} << 20;

Status read_at(const DataFile& file, std::uint64_t at, std::span<std::byte> out) {
  return file.read(at, {reinterpret_cast<std::uint8_t*>(out.data()), out.size()});
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

Result<SafetensorsHeader> describe(const fs::path& file, std::span<const TensorData> tensors,
                                   const Metadata& metadata) {
  SafetensorsHeader header{metadata, {}};
  std::set<std::string_view> names;
  std::uint64_t at = 0;
  for (const TensorData& t : tensors) {
    const auto bytes = tensor_bytes(t.dtype, t.shape);
    // The same rules as for reading, so that this program never writes a file that it refuses.
    if (!bytes || *bytes != t.bytes.size() || !names.insert(t.name).second)
      return usage_error(file.string() + ": tensor \"" + t.name + "\" of " + t.dtype + " " +
                         shape_text(t.shape) + " with " + std::to_string(t.bytes.size()) +
                         " bytes: allowed is a new name and bytes that fit the shape");
    header.tensors.push_back({t.name, t.dtype, t.shape, at, at + t.bytes.size()});
    at += t.bytes.size();
  }
  return header;
}

Status write_parts(WritableFile& out, const std::string& header,
                   std::span<const TensorData> tensors) {
  std::byte length[kLengthBytes];
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  ES_RETURN_IF_ERROR(out.append(length));
  ES_RETURN_IF_ERROR(out.append(std::as_bytes(std::span(header))));
  for (const TensorData& t : tensors) ES_RETURN_IF_ERROR(out.append(t.bytes));
  return {};
}

}  // namespace

Status write_safetensors(FileSystem& files, const fs::path& file,
                         std::span<const TensorData> tensors, const Metadata& metadata) {
  const auto header = describe(file, tensors, metadata);
  if (!header) return header.error();
  const std::string json = encode_header(*header);
  return write_new_file(files, file,
                        [&](WritableFile& out) { return write_parts(out, json, tensors); });
}

Result<SafetensorsFile> SafetensorsFile::open(const fs::path& path) {
  auto opened = DataFile::open(path);
  if (!opened) return opened.error();
  SafetensorsFile file(*std::move(opened));
  const std::uint64_t size = file.file_.bytes();
  std::byte length[kLengthBytes];
  if (size < kLengthBytes)
    return usage_error(path.string() + ": " + std::to_string(size) +
                       " bytes: allowed is a safetensors file");
  ES_RETURN_IF_ERROR(read_at(file.file_, 0, length));
  const std::uint64_t header_bytes = little_endian(length);
  // The length comes from the file. It is compared with the size of the file and with the limit
  // before memory is allocated.
  if (header_bytes > std::min(size - kLengthBytes, kSafetensorsHeaderMax))
    return usage_error(path.string() +
                       ": its first 8 bytes are no length of a header: allowed is a safetensors "
                       "file, whose header is in it and has at most 64 MiB");
  std::string json(header_bytes, '\0');
  ES_RETURN_IF_ERROR(read_at(file.file_, kLengthBytes,
                             std::as_writable_bytes(std::span(json.data(), json.size()))));
  auto header = decode_header(json, size - kLengthBytes - header_bytes, path.string());
  if (!header) return header.error();
  file.data_at_ = kLengthBytes + header_bytes;
  file.metadata_ = std::move(header->metadata);
  file.tensors_ = std::move(header->tensors);
  return file;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const TensorInfo& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

Result<std::vector<std::byte>> SafetensorsFile::read(const TensorInfo& tensor) const {
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  ES_RETURN_IF_ERROR(read_at(file_, data_at_ + tensor.begin, bytes));
  return bytes;
}

Result<Digest> SafetensorsFile::digest() const {
  DigestBuilder digest;
  std::vector<std::byte> block(kDigestBlockBytes);
  for (std::uint64_t at = 0; at < file_.bytes(); at += block.size()) {
    const auto part =
        std::span(block).first(std::min<std::uint64_t>(block.size(), file_.bytes() - at));
    ES_RETURN_IF_ERROR(read_at(file_, at, part));
    digest.add(part.data(), part.size());
  }
  return digest.finish();
}

}  // namespace es::store
