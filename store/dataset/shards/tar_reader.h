#pragma once
// Reads the members of a tar archive in their order, without unpacking it: ustar, pax, and the long
// names of GNU tar. A header is checked before it is used. Memory is bounded, whatever a header
// promises.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/dataset/data_file.h"

namespace es::store {

inline constexpr std::uint64_t kTarBlockBytes = 512;

// A regular file in an archive.
struct TarMember {
  std::string name;
  std::uint64_t at = 0;     // of its first byte in the archive; a multiple of kTarBlockBytes
  std::uint64_t bytes = 0;  // at + bytes is at most the size of the archive

  // The number of its header, as `tar --list --block-number` counts.
  std::uint64_t block() const { return at / kTarBlockBytes - 1; }
};

// "FILE: block N", the place of a header in errors.
std::string tar_place(const DataFile& file, std::uint64_t block);

// Whether a block has the checksum of a header.
// REQUIRES: it has kTarBlockBytes bytes.
bool is_tar_header(std::span<const std::uint8_t> block);

// Not thread-safe. The file must outlive it.
class TarReader {
 public:
  explicit TarReader(const DataFile& file) : file_(file) {}

  // Returns false at the end mark of the archive, a block of zeros. Directories are left out.
  // Errors: usage (a compressed archive, a wrong checksum or number, a content beyond the end of
  // the file, a link or device, no end mark); failure (the file cannot be read). They name the file
  // and the block.
  Result<bool> next(TarMember& member);

  // The content of a member. REQUIRES: it is from next(). Error: failure.
  Result<std::string> content(const TarMember& member);

 private:
  struct Header {
    char type = 0;
    std::string name;
    std::uint64_t bytes = 0;
  };
  // What the headers before a member say about it.
  struct Extension {
    std::optional<std::string> name;
    std::optional<std::uint64_t> bytes;
  };

  std::string place() const { return tar_place(file_, at_ / kTarBlockBytes); }
  Result<std::span<const std::uint8_t>> fetch(std::uint64_t at, std::uint64_t bytes);
  Status check_content(std::uint64_t bytes) const;
  // The header at at_; nothing for a block of zeros.
  Result<std::optional<Header>> read_header();
  Status read_extension(const Header& header, Extension& extension);
  Status read_pax(std::string_view text, Extension& extension) const;

  const DataFile& file_;
  std::uint64_t at_ = 0;  // of the next header
  // A part of the file: the headers and short members behind an image are read at once.
  std::vector<std::uint8_t> window_;
  std::uint64_t window_at_ = 0;
};

}  // namespace es::store
