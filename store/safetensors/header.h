#pragma once
// Converts the header of a safetensors file from and to JSON.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/safetensors/safetensors.h"

namespace es::store {

struct SafetensorsHeader {
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // ascending by begin, without gaps from 0 on
};

// Checks everything against `data_bytes`, the size of the data after the header. Error (usage),
// which begins with `where`.
Result<SafetensorsHeader> decode_header(std::string_view json, std::uint64_t data_bytes,
                                        const std::string& where);

// JSON, padded with spaces to a multiple of 8 bytes.
std::string encode_header(const SafetensorsHeader& header);

// Number of bytes of an array. Error (usage): the dtype does not exist, or more than 2^62 bytes.
Result<std::uint64_t> tensor_bytes(std::string_view dtype, std::span<const std::uint64_t> shape);

}  // namespace es::store
