#pragma once
// Archives of NumPy arrays (.npz, as numpy.savez and numpy.savez_compressed write them): zip files
// in which the array NAME is the entry NAME.npy.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/dataset/arrays/npy_file.h"

struct zip;

namespace es::store {

// The limit of the bytes of one array, unpacked.
inline constexpr std::uint64_t kNpzArrayBytesMax = std::uint64_t{8} << 30;

// An open archive. Used by one thread at a time.
class NpzFile {
 public:
  // Errors: not found; usage (no zip file).
  static Result<NpzFile> open(const std::filesystem::path& file);

  // Unpacks an array into memory, from which the returned file is read. Its name in errors is
  // FILE[NAME]. Errors: not found (no such array); usage (damage, an encrypted entry, an array of
  // more than kNpzArrayBytesMax bytes, and the errors of read_npy_header).
  Result<NpyFile> unpack(const std::string& name) const;

 private:
  using Archive = std::unique_ptr<zip, void (*)(zip*)>;
  NpzFile(std::string file, Archive archive)
      : file_(std::move(file)), archive_(std::move(archive)) {}
  Status unpack_bytes(const std::string& where, const std::string& entry, int descriptor) const;

  std::string file_;
  Archive archive_;
};

// An array of fp32 that is to be written, row-major.
struct NpzArray {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::span<const float> values;
};

// Writes a new archive without compression, as a whole or not at all. Errors: refused (the file
// exists); failure (disk).
Status write_npz(const std::filesystem::path& file, std::span<const NpzArray> arrays);

}  // namespace es::store
