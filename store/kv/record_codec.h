#pragma once
// The form of the values in the store: a format version, then the fields in order. Numbers are
// little endian, and a text is preceded by its length. The reader checks everything: bytes that the
// matching writer did not write give one error and never end the process.
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/digest.h"
#include "proto/base/result.h"

namespace es::store {

class RecordWriter {
 public:
  explicit RecordWriter(std::uint8_t format_version) { u8(format_version); }

  void u8(std::uint8_t value);
  void u32(std::uint32_t value);
  void u64(std::uint64_t value);
  void f64(double value);  // the bits of the value
  void text(std::string_view value);
  void digest(const Digest& value);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads in the order of the writer. The first problem sets the status, and after it every read
// returns zero or an empty value. A decoder is therefore a plain sequence of reads with one check
// at the end.
class RecordReader {
 public:
  // `what` names the record in errors. `bytes` must outlive the reader.
  RecordReader(std::string_view bytes, std::uint8_t format_version, std::string what);

  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  double f64();
  std::string text();
  Digest digest();
  // Reads the number of items that follow, each of at least `item_bytes_min` bytes. A number that
  // the record cannot contain is an error, so a wrong number cannot make the caller reserve too
  // much memory.
  std::uint32_t count(std::size_t item_bytes_min);

  // Sets an error if `holds` is false: the field has a value that is not allowed.
  void expect(bool holds, const char* field);
  bool ok() const { return status_.ok(); }
  // Error (failure): the first problem, or bytes after the last field.
  Status finish();

 private:
  std::uint64_t little_endian(std::size_t bytes);
  void fail(const std::string& reason);

  std::string_view rest_;
  std::string what_;
  Status status_;
};

}  // namespace es::store
