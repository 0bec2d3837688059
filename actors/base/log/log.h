#pragma once
// The log of a process: lines with a time, a level, and what they are about (line.h), on standard
// error or in a file. A worker's standard error is its file worker-N.log.
//
// A process logs nothing before start(). So esctl, whose output is its user interface, logs
// nothing, also where it runs actors of the head in a simulation.
//
// Every line is written whole and at once, by one call of the system, so nothing is lost when the
// process is aborted. The functions are thread-safe. A line that cannot be written is dropped.
#include <cstdint>
#include <string>
#include <string_view>

#include "actors/base/log/line.h"
#include "proto/base/result.h"

namespace es::log {

struct Options {
  Level level = Level::kInfo;  // the least level that is written
  Format format = Format::kText;
  // The file to which lines are appended; empty for standard error. Errors are written to both,
  // because the last one says why the process ends.
  std::string file{};
  // Before a line would make the file larger than this, it becomes FILE.1 (for a name with an
  // extension: NAME.1.EXTENSION), the older ones get the next numbers, and a new one begins.
  std::uint64_t file_bytes_max = 64ull << 20;
  std::uint32_t older_files = 5;  // kept beside the current one; the oldest is removed
};

// Starts the log. Every line gets the parts of `process`, except those that it has itself. A failed
// ES_CHECK is logged as an error from now on. Call it once, before the process has other threads.
// Error (failure): the file cannot be opened.
Status start(const Options& options, const About& process = {});

// Whether lines of this level are written. Ask before composing a text that takes time.
bool enabled(Level level);

void write(Level level, std::string_view message, const About& about = {});
void debug(std::string_view message, const About& about = {});
void info(std::string_view message, const About& about = {});
void warning(std::string_view message, const About& about = {});
void error(std::string_view message, const About& about = {});

}  // namespace es::log
