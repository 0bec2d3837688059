#include "store/tensorboard/event_file.h"

#include <array>
#include <bit>

namespace es::store {
namespace {

// The kinds of fields in Protocol Buffers.
enum class WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
// The fields of the messages Event, Summary and Summary.Value that are written here.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
constexpr int kSummaryValue = 1, kTag = 1, kSimpleValue = 2;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

template <class Integer>
void put_little_endian(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, WireType::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double unix_seconds) {
  std::string event;
  put_key(event, kWallTime, WireType::kFixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(unix_seconds));
  return event;
}

std::string scalar_event(double unix_seconds, const Scalar& scalar) {
  std::string value;
  put_bytes(value, kTag, scalar.tag);
  put_key(value, kSimpleValue, WireType::kFixed32);
  put_little_endian(value, std::bit_cast<std::uint32_t>(scalar.value));
  std::string summary;
  put_bytes(summary, kSummaryValue, value);
  std::string event = event_at(unix_seconds);
  put_key(event, kStep, WireType::kVarint);
  put_varint(event, scalar.step);
  put_bytes(event, kSummary, summary);
  return event;
}

// A checksum of data that contains its own checksum is a bad one, so TFRecord changes it.
std::uint32_t masked(std::uint32_t crc) {
  constexpr std::uint32_t kDelta = 0xA282EAD8;
  return ((crc >> 15) | (crc << 17)) + kDelta;
}

void put_record(std::string& out, const std::string& data) {
  std::string length;
  put_little_endian(length, static_cast<std::uint64_t>(data.size()));
  out += length;
  put_little_endian(out, masked(crc32c(length)));
  out += data;
  put_little_endian(out, masked(crc32c(data)));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_crc_table();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::string event_file_header(double unix_seconds) {
  std::string version = event_at(unix_seconds);
  put_bytes(version, kFileVersion, "brain.Event:2");
  std::string file;
  put_record(file, version);
  return file;
}

std::string encode_events(double unix_seconds, std::span<const Scalar> scalars) {
  std::string events;
  for (const Scalar& scalar : scalars) put_record(events, scalar_event(unix_seconds, scalar));
  return events;
}

}  // namespace es::store
