#include "actors/base/log/tail.h"

#include <algorithm>
#include <fstream>

namespace es::log {

Part part_of(const std::filesystem::path& file, std::uint64_t begin, std::size_t bytes_max,
             bool is_over) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {.complete = is_over};
  const auto size = static_cast<std::uint64_t>(in.tellg());
  const bool is_tail = begin == 0 && size > bytes_max;
  begin = is_tail ? size - bytes_max : std::min(begin, size);
  std::string text(std::min<std::uint64_t>(size - begin, bytes_max), '\0');
  in.seekg(static_cast<std::streamoff>(begin));
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::uint64_t end = begin + text.size();
  // A single long line is kept as it is.
  const std::size_t last_end = text.rfind('\n');
  const bool is_cut = text.size() == bytes_max && last_end == std::string::npos;
  if (!(is_over && end == size) && !is_cut) {
    const std::size_t whole = last_end == std::string::npos ? 0 : last_end + 1;
    end -= text.size() - whole;
    text.resize(whole);
  }
  const std::size_t first_end = is_tail ? text.find('\n') : std::string::npos;
  if (first_end < text.size() - 1) text.erase(0, first_end + 1);
  return {std::move(text), end, is_over && end == size};
}

std::string tail_of(const std::filesystem::path& file, std::size_t bytes_max) {
  return part_of(file, 0, bytes_max, true).text;
}

}  // namespace es::log
