#include "store/dataset/tokens/token_shard.h"

#include <algorithm>
#include <array>

#include "store/dataset/arrays/npy_file.h"
#include "store/field_error.h"

namespace es::store {
namespace {

constexpr TokenHeader kTokenHeaders[] = {{20240520, 1, NpyType::kU16},
                                         {20240801, 7, NpyType::kU32}};

// The first numbers of a file: the mark, the version and the number of tokens.
struct FirstNumbers {
  std::int64_t mark = 0, version = 0, tokens = 0;
};

// A file that is too short for the three numbers has no header.
Result<FirstNumbers> first_numbers(const DataFile& file) {
  std::array<std::uint8_t, 3 * sizeof(std::int32_t)> bytes{};
  if (file.bytes() < bytes.size()) return FirstNumbers{};
  ES_RETURN_IF_ERROR(file.read(0, bytes));
  const auto number = [&](std::size_t i) { return npy_integer(NpyType::kI32, bytes, i); };
  return FirstNumbers{number(0), number(1), number(2)};
}

}  // namespace

const TokenHeader& token_header(NpyType type) {
  const auto* const header = std::ranges::find(kTokenHeaders, type, &TokenHeader::type);
  ES_CHECK(header != std::end(kTokenHeaders));
  return *header;
}

bool is_token_shard(const std::filesystem::path& path) {
  return path.extension() == ".bin" || path.extension() == ".npy";
}

Result<TokenShard> TokenShard::open(const std::filesystem::path& path, NpyType raw_type) {
  auto file = DataFile::open(path);
  if (!file) return file.error();
  TokenShard shard(path);
  shard.file_bytes_ = file->bytes();
  const Status read = path.extension() == ".npy" ? shard.read_npy(*std::move(file))
                                                 : shard.read_bin(*file, raw_type);
  if (!read.ok()) return read.error();
  return shard;
}

Status TokenShard::read_bin(const DataFile& file, NpyType raw_type) {
  const auto numbers = first_numbers(file);
  if (!numbers) return numbers.error();
  const auto* const header = std::ranges::find(kTokenHeaders, numbers->mark, &TokenHeader::mark);
  const bool is_raw = header == std::end(kTokenHeaders);
  type_ = is_raw ? raw_type : header->type;
  const std::uint64_t size = npy_bytes(type_);
  if (is_raw) {
    tokens_ = file_bytes_ / size;
    if (file_bytes_ % size == 0) return {};
    return bad_field(file.name(), "size in bytes", std::to_string(file_bytes_),
                     "a multiple of " + std::to_string(size) +
                         ", the size of a token (data.token_type = \"uint" +
                         std::to_string(8 * size) + "\")");
  }
  if (numbers->version != header->version)
    return bad_content(file.name(), "the version in its header",
                       std::to_string(header->version) + ", as llm.c writes it with this type");
  data_at_ = kTokenHeaderBytes;
  tokens_ = static_cast<std::uint64_t>(std::max<std::int64_t>(numbers->tokens, 0));
  if (numbers->tokens >= 0 && file_bytes_ == data_at_ + tokens_ * size) return {};
  return bad_field(file.name(), "size in bytes", std::to_string(file_bytes_),
                   "the size that its header says");
}

Status TokenShard::read_npy(DataFile file) {
  const auto array = NpyFile::read_from(std::move(file));
  if (!array) return array.error();
  const NpyHeader& header = array->header();
  constexpr NpyType kAllowed[] = {NpyType::kU16, NpyType::kU32, NpyType::kI32, NpyType::kI64};
  if (std::ranges::find(kAllowed, header.type) == std::end(kAllowed))
    return bad_field(array->name(), "type of elements", npy_name(header.type),
                     "u2, u4, i4 or i8 for tokens");
  if (header.shape.size() != 1)
    return bad_field(array->name(), "number of axes", std::to_string(header.shape.size()),
                     "1, that of the tokens");
  type_ = header.type;
  data_at_ = header.data_at;
  tokens_ = header.shape.front();
  return {};
}

Status TokenShard::read(std::uint64_t first, std::uint64_t count,
                        std::vector<std::uint8_t>& bytes) const {
  const auto file = DataFile::open(path_);
  if (!file) return file.error();
  if (file->bytes() != file_bytes_)
    return failure(bad_field(file->name(), "size in bytes", std::to_string(file->bytes()),
                             std::to_string(file_bytes_) + ", as when the job opened it")
                       .message);
  bytes.resize(count * npy_bytes(type_));
  return file->read(data_at_ + first * npy_bytes(type_), bytes);
}

}  // namespace es::store
