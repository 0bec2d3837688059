#include "actors/views/log_filter.h"

#include "actors/views/moment.h"

namespace es::actors {
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

}  // namespace es::actors
