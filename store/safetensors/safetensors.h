#pragma once
// Files in the safetensors format: named arrays with a JSON header, as PyTorch's users exchange
// weights. 8 bytes N (little endian), N bytes of JSON, then the arrays' bytes one after the other:
//
//   {"__metadata__": {"KEY": "TEXT"}, "NAME": {"dtype": "F32", "shape": [2, 3],
//    "data_offsets": [0, 24]}, ...}
//
// A reader believes nothing: sizes are bounded, every byte of the data belongs to exactly one
// array, no name comes twice. What is wrong is an error that names file and array, never a crash.
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"

namespace es::store {

inline constexpr std::uint64_t kSafetensorsHeaderMax = std::uint64_t{64} << 20;

struct TensorInfo {
  std::string name;
  std::string dtype;                 // "F32", "I64", ...
  std::vector<std::uint64_t> shape;  // empty: a scalar
  std::uint64_t begin = 0, end = 0;  // bytes, in the data
};

struct TensorData {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;  // row-major, little endian
};

using Metadata = std::map<std::string, std::string>;

// Writes a new file, whole or not at all. Errors: refused (the file exists), usage (an array whose
// bytes do not fit its shape, two of one name), failure (disk).
Status write_safetensors(FileSystem& files, const std::filesystem::path& file,
                         std::span<const TensorData> tensors, const Metadata& metadata);

// An open file's header. Holds no file open between calls; const and thread-safe.
class SafetensorsFile {
 public:
  // Errors: not found; usage (anything that is not of the format).
  static Result<SafetensorsFile> open(const std::filesystem::path& file);

  const Metadata& metadata() const { return metadata_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of the data
  const TensorInfo* find(std::string_view name) const;                 // or null
  // The bytes of an array of this file.
  Result<std::vector<std::byte>> read(const TensorInfo& tensor) const;

 private:
  std::filesystem::path file_;
  std::uint64_t data_at_ = 0;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
};

// "[64,3,7,7]"
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace es::store
