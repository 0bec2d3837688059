#pragma once
// NumPy files for tests, as numpy.save writes them.
#include <cstring>
#include <string>
#include <vector>

namespace es::test {

// The text of the header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
inline std::string npy_literal(const std::string& descr, const std::vector<std::size_t>& shape) {
  std::string axes;
  for (const std::size_t extent : shape) axes += std::to_string(extent) + ",";
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + axes + "), }";
}

// A file of version 1, or of version 2 or 3 with a longer length.
inline std::string npy_file(const std::string& literal, const std::string& data, int version = 1) {
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::string padded = literal;
  while ((8 + length_bytes + padded.size() + 1) % 64 != 0) padded += ' ';
  padded += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (std::size_t i = 0; i < length_bytes; ++i)
    bytes += static_cast<char>(padded.size() >> (8 * i));
  return bytes + padded + data;
}

template <class T>
std::string npy_data(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace es::test
