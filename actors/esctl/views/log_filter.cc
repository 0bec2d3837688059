#include "actors/esctl/views/log_filter.h"

#include <charconv>

namespace es::actors::esctl {
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

// Returns the duration "10m"; no value: another text, or more than a hundred years.
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

}  // namespace

Result<std::chrono::system_clock::time_point> parse_since(
    const std::string& text, std::chrono::system_clock::time_point now) {
  if (const auto ago = parse_duration(text)) return now - *ago;
  if (const auto time = log::parse_time(text)) return *time;
  return usage_error("--since " + text +
                     ": allowed are a duration such as 90s, 10m, 2h or 3d, and a time in UTC such "
                     "as 2026-11-22T17:31:02Z");
}

bool shows(const LogFilter& filter, const log::JobLine& line) {
  if (line.level < filter.level_min) return false;
  if (filter.since && (!line.time || *line.time < *filter.since)) return false;
  return line.message.find(filter.text) != std::string::npos;
}

}  // namespace es::actors::esctl
