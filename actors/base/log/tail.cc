#include "actors/base/log/tail.h"

#include <algorithm>
#include <fstream>

namespace es::log {

std::string tail_of(const std::filesystem::path& file, std::size_t bytes_max) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<std::size_t>(in.tellg());
  const std::size_t length = std::min(size, bytes_max);
  std::string text(length, '\0');
  in.seekg(static_cast<std::streamoff>(size - length));
  in.read(text.data(), static_cast<std::streamsize>(length));
  const std::size_t first_end = length < size ? text.find('\n') : std::string::npos;
  // A single long line is kept as it is.
  if (first_end < text.size() - 1) text.erase(0, first_end + 1);
  return text;
}

}  // namespace es::log
