#pragma once
// Which lines of a job's log `esctl logs` shows. Pure functions.
#include <chrono>
#include <optional>
#include <string>

#include "actors/base/log/line.h"
#include "proto/base/result.h"

namespace es::actors {

struct LogFilter {
  // Only lines of this time or later. Lines without a time are from logs of earlier releases, and
  // are left out.
  std::optional<std::chrono::system_clock::time_point> since;
  std::string text;                          // only lines whose message contains it; empty: all
  log::Level level_min = log::Level::kInfo;  // only lines of this level or a higher one
};

// Reads "90s", "10m", "2h" or "3d" as a time so long before `now`, and otherwise a time in UTC
// such as 2026-11-22T17:31:02Z (log::parse_time). Error (usage): another text.
Result<std::chrono::system_clock::time_point> parse_since(
    const std::string& text, std::chrono::system_clock::time_point now);

bool shows(const LogFilter& filter, const log::JobLine& line);

}  // namespace es::actors
