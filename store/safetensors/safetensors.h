#pragma once
// Files in the safetensors format, in which users of PyTorch exchange weights: named arrays with a
// JSON header. The file has 8 bytes N (little endian), N bytes of JSON, and the bytes of the arrays
// one after the other:
//
//   {"__metadata__": {"KEY": "TEXT"}, "NAME": {"dtype": "F32", "shape": [2, 3],
//    "data_offsets": [0, 24]}, ...}
//
// The reader trusts nothing in a file. Sizes are bounded, every byte of the data belongs to exactly
// one array, and names are unique. An error names the file and the array; a bad file never ends the
// process.
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/digest.h"
#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"
#include "store/dataset/data_file.h"

namespace es::store {

inline constexpr std::uint64_t kSafetensorsHeaderMax = std::uint64_t{64} << 20;

struct TensorInfo {
  std::string name;
  std::string dtype;                 // "F32", "I64", ...
  std::vector<std::uint64_t> shape;  // empty for a scalar
  std::uint64_t begin = 0, end = 0;  // byte offsets in the data
};

struct TensorData {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;  // row-major, little endian
};

using Metadata = std::map<std::string, std::string>;

// Writes a new file, as a whole or not at all. Errors: refused (the file exists), usage (the bytes
// of an array do not fit its shape, or two arrays have one name), failure (disk).
Status write_safetensors(FileSystem& files, const std::filesystem::path& file,
                         std::span<const TensorData> tensors, const Metadata& metadata);

// An open file and its header. Everything is read from the file that was opened, even if another
// one gets its name meanwhile. Const and thread-safe.
class SafetensorsFile {
 public:
  // Errors: those of DataFile::open; usage (the file is not in the format).
  static Result<SafetensorsFile> open(const std::filesystem::path& file);

  const Metadata& metadata() const { return metadata_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of the data
  const TensorInfo* find(std::string_view name) const;                 // nullptr if there is none
  // Reads the bytes of an array of this file.
  Result<std::vector<std::byte>> read(const TensorInfo& tensor) const;
  // The digest of all bytes of the file.
  Result<Digest> digest() const;

 private:
  explicit SafetensorsFile(DataFile file) : file_(std::move(file)) {}

  DataFile file_;
  std::uint64_t data_at_ = 0;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
};

// "[64,3,7,7]"
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace es::store
