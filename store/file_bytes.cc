#include "store/file_bytes.h"

#include <algorithm>
#include <span>

#include "store/byte_source.h"
#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::size_t kFirstPiece = std::size_t{64} << 10;
constexpr std::size_t kPieceMax = std::size_t{16} << 20;

std::span<std::uint8_t> tail(std::string& bytes, std::size_t from) {
  return {reinterpret_cast<std::uint8_t*>(bytes.data()) + from, bytes.size() - from};
}

}  // namespace

Result<std::string> file_bytes(const std::filesystem::path& file, std::uint64_t bytes_max,
                               const std::string& where) {
  Result<ByteSource> source = ByteSource::open(file, where);
  if (!source) return source.error();
  std::string bytes;
  while (true) {
    const std::size_t before = bytes.size();
    // Pieces double up to a limit, so a small file needs little memory, and a compressed one that
    // is too large is noticed soon after the limit.
    const std::size_t piece = std::clamp(before, kFirstPiece, kPieceMax);
    bytes.resize(before + piece);
    const Result<std::size_t> got = source->read(tail(bytes, before));
    if (!got) return got.error();
    bytes.resize(before + *got);
    if (bytes.size() > bytes_max)
      return bad_field(where.empty() ? file.string() : where, "size in bytes",
                       "more than " + std::to_string(bytes_max),
                       "at most " + std::to_string(bytes_max));
    if (*got < piece) return bytes;
  }
}

}  // namespace es::store
