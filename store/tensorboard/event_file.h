#pragma once
// Event files that TensorBoard reads: scalars by step. Pure functions.
//
// A file is a series of records: the length of the data (64 bits, little endian), the masked
// CRC-32C of these eight bytes, the data, and the masked CRC-32C of the data (the format of
// TFRecord). The data is a message `Event` in the encoding of Protocol Buffers.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace es::store {

struct Scalar {
  std::string tag;  // the name of the chart, such as "loss/mean"
  std::uint64_t step = 0;
  float value = 0;
};

// The beginning of every file. `unix_seconds` is its time since 1970.
std::string event_file_header(double unix_seconds);

// The events that follow; a file grows by appending more of them. All have the time `unix_seconds`.
std::string encode_events(double unix_seconds, std::span<const Scalar> scalars);

// The CRC-32C (Castagnoli polynomial, reflected) of the bytes, as iSCSI defines it (RFC 3720).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace es::store
