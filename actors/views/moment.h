#pragma once
// Times as users write them. Pure functions.
#include <chrono>
#include <optional>
#include <string_view>

namespace es::actors {

// Reads "90s", "10m", "2h" or "3d". No value: another text, or more than a hundred years.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// Reads a duration, which is added to `now`, or a time in UTC such as 2026-11-22T17:31
// (log::parse_time). No value: another text.
std::optional<std::chrono::system_clock::time_point> parse_moment(
    std::string_view text, std::chrono::system_clock::time_point now);

}  // namespace es::actors
