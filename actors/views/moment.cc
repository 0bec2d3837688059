#include "actors/views/moment.h"

#include <charconv>
#include <cstdint>

#include "actors/base/log/line.h"

namespace es::actors {
namespace {

// The number of seconds of a unit; 0: there is no such unit.
std::uint64_t seconds_of(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3600;
    case 'd':
      return 86'400;
    default:
      return 0;
  }
}

}  // namespace

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
  constexpr std::uint64_t kSecondsMax = 100ull * 366 * 86'400;
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || at + 1 != end) return {};
  const std::uint64_t unit = seconds_of(*at);
  if (unit == 0 || count > kSecondsMax / unit) return {};
  return std::chrono::seconds(count * unit);
}

std::optional<std::chrono::system_clock::time_point> parse_moment(
    std::string_view text, std::chrono::system_clock::time_point now) {
  if (const auto later = parse_duration(text)) return now + *later;
  return log::parse_time(text);
}

}  // namespace es::actors
