#include "store/kv/record_codec.h"

#include <bit>

namespace es::store {
namespace {

void append_little_endian(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

void RecordWriter::u8(std::uint8_t value) {
  append_little_endian(bytes_, value, 1);
}
void RecordWriter::u32(std::uint32_t value) {
  append_little_endian(bytes_, value, 4);
}
void RecordWriter::u64(std::uint64_t value) {
  append_little_endian(bytes_, value, 8);
}
void RecordWriter::f64(double value) {
  // The bits, not a text, so that a value is the same when it is read back, also NaN and -0.
  u64(std::bit_cast<std::uint64_t>(value));
}

void RecordWriter::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  bytes_.append(value);
}

void RecordWriter::digest(const Digest& value) {
  u64(value.high);
  u64(value.low);
}

RecordReader::RecordReader(std::string_view bytes, std::uint8_t format_version, std::string what)
    : rest_(bytes), what_(std::move(what)) {
  const std::uint8_t found = u8();
  if (ok() && found != format_version)
    fail("format version = " + std::to_string(found) + ": allowed is " +
         std::to_string(format_version));
}

std::uint8_t RecordReader::u8() {
  return static_cast<std::uint8_t>(little_endian(1));
}
std::uint32_t RecordReader::u32() {
  return static_cast<std::uint32_t>(little_endian(4));
}
std::uint64_t RecordReader::u64() {
  return little_endian(8);
}
double RecordReader::f64() {
  return std::bit_cast<double>(u64());
}

std::string RecordReader::text() {
  // count() refuses a size beyond the rest of the record, before memory is allocated for the text.
  const std::uint32_t size = count(1);
  std::string value(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return value;
}

Digest RecordReader::digest() {
  const std::uint64_t high = u64();
  const std::uint64_t low = u64();
  return {high, low};
}

std::uint32_t RecordReader::count(std::size_t item_bytes_min) {
  const std::uint32_t value = u32();
  // A division, because a product of a number from the disk and the size could overflow.
  if (value <= rest_.size() / item_bytes_min) return value;
  fail("it is damaged: shorter than the " + std::to_string(value) + " items that it names");
  return 0;
}

void RecordReader::expect(bool holds, const char* field) {
  if (!holds)
    fail("it is damaged: field " + std::string(field) + " has a value that is not allowed");
}

Status RecordReader::finish() {
  if (!rest_.empty()) fail("it is damaged: bytes follow after its end");
  return status_;
}

std::uint64_t RecordReader::little_endian(std::size_t bytes) {
  if (rest_.size() < bytes) {
    fail("it is damaged: shorter than its fields");
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  rest_.remove_prefix(bytes);
  return value;
}

void RecordReader::fail(const std::string& reason) {
  // The first problem is the cause. Emptying the rest makes every later read fail too, without a
  // second message.
  if (ok()) status_ = failure(what_ + " in the state directory cannot be read: " + reason);
  rest_ = {};
}

}  // namespace es::store
