#pragma once
// TokenShard is one file with the tokens of a text, in their order:
//   .bin   little-endian integers. A file that begins with 20240520 has the header of llm.c for
//          uint16, and one that begins with 20240801 that for uint32: 256 int32, of which the first
//          are this number, the version (1 or 7) and the number of tokens. Any other file is raw,
//          as nanoGPT writes it, and the job says its type.
//   .npy   a NumPy array with one axis of u2, u4, i4 or i8
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "store/dataset/arrays/npy_header.h"
#include "store/dataset/data_file.h"

namespace es::store {

// A header of llm.c (dev/data/data_common.py there) has this size and begins with three int32: the
// mark, the version and the number of tokens.
inline constexpr std::uint64_t kTokenHeaderBytes = 256 * sizeof(std::int32_t);
struct TokenHeader {
  std::int64_t mark;
  std::int64_t version;
  NpyType type;
};
// The header of files with tokens of this type. REQUIRES: kU16 or kU32.
const TokenHeader& token_header(NpyType type);

// Whether a file has one of these endings.
bool is_token_shard(const std::filesystem::path& path);

// Immutable and thread-safe. It holds no open file, because a data set may have more shards than a
// process may open.
class TokenShard {
 public:
  // Reads the size and the header. `raw_type` is that of a file without a header. Errors: those of
  // DataFile::open and NpyFile::open; usage, naming file, field, value and what is allowed.
  static Result<TokenShard> open(const std::filesystem::path& path, NpyType raw_type);

  const std::filesystem::path& path() const { return path_; }
  NpyType type() const { return type_; }
  std::uint64_t tokens() const { return tokens_; }

  // Writes tokens first, first + 1, ..., first + count - 1 as they are in the file; npy_integer()
  // reads one. REQUIRES: they exist. Errors: those of DataFile; failure if the size of the file has
  // changed since open().
  Status read(std::uint64_t first, std::uint64_t count, std::vector<std::uint8_t>& bytes) const;

 private:
  explicit TokenShard(std::filesystem::path path) : path_(std::move(path)) {}
  Status read_bin(const DataFile& file, NpyType raw_type);
  Status read_npy(DataFile file);

  std::filesystem::path path_;
  NpyType type_ = NpyType::kU16;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t data_at_ = 0;  // offset of the first token in the file
  std::uint64_t tokens_ = 0;
};

}  // namespace es::store
