#pragma once
// The header of a NumPy file (.npy, format versions 1 to 3): a Python literal with the type of the
// elements, their order and the shape.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

inline constexpr std::size_t kNpyPrefixBytes = 12;  // the largest part before the literal
inline constexpr std::size_t kNpyLiteralMax = 64 << 10;

enum class NpyType { kF32, kF64, kI32, kI64, kU8, kU16, kU32, kBool };

struct NpyHeader {
  NpyType type = NpyType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t data_at = 0;  // offset of the first element in the file

  // Bytes of all elements, or of the elements with one index on the first axis.
  std::uint64_t bytes() const;
  std::uint64_t row_bytes() const;
};

// Bytes of one element, and the name of the type: "f4".
std::size_t npy_bytes(NpyType type);
const char* npy_name(NpyType type);
// Element `index` of an array of integers or truth values. REQUIRES: the type is not kF32 or kF64.
std::int64_t npy_integer(NpyType type, std::span<const std::uint8_t> bytes, std::size_t index);

// Reads the header at the beginning of a file; `bytes` is its first kNpyPrefixBytes +
// kNpyLiteralMax bytes, or all of it. Error (usage): no NumPy file, another version, type, order of
// bytes or order of elements than is allowed, or a shape of more than 2^48 bytes.
Result<NpyHeader> read_npy_header(std::string_view bytes, const std::string& where);

}  // namespace es::store
