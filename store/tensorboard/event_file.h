#pragma once
// Event files that TensorBoard reads: scalars by step. Pure functions.
//
// A file is a series of records: the length of the data (64 bits, little endian), the masked
// CRC-32C of these eight bytes, the data, and the masked CRC-32C of the data (the format of
// TFRecord). The data is a message `Event` in the encoding of Protocol Buffers.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace es::store {

struct Scalar {
  std::string tag;  // the name of the chart, such as "loss/mean"
  std::uint64_t step = 0;
  float value = 0;
};

// A whole file. `unix_seconds` is the time of all of its events.
std::string encode_event_file(double unix_seconds, const std::vector<Scalar>& scalars);

// The CRC-32C (Castagnoli polynomial, reflected) of the bytes, as iSCSI defines it (RFC 3720).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace es::store
