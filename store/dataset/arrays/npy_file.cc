#include "store/dataset/arrays/npy_file.h"

#include <algorithm>

#include "store/field_error.h"

namespace es::store {

Result<NpyFile> NpyFile::open(const std::filesystem::path& path) {
  auto file = DataFile::open(path);
  if (!file) return file.error();
  return read_from(*std::move(file));
}

Result<NpyFile> NpyFile::read_from(DataFile file) {
  std::string bytes(std::min<std::uint64_t>(file.bytes(), kNpyPrefixBytes + kNpyLiteralMax), '\0');
  ES_RETURN_IF_ERROR(file.read(0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
  auto header = read_npy_header(bytes, file.name());
  if (!header) return header.error();
  if (file.bytes() - header->data_at != header->bytes())
    return bad_field(file.name(), "size in bytes", std::to_string(file.bytes()),
                     "the size that its header says");
  return NpyFile(std::move(file), *std::move(header));
}

Status NpyFile::read(std::uint64_t first, std::span<std::uint8_t> out) const {
  return file_.read(header_.data_at + first * header_.row_bytes(), out);
}

}  // namespace es::store
