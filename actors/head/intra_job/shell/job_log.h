#pragma once
// JobLog is the log of one job: its newest lines in memory, and all of them in a file. Every line
// also goes to the log of the process (log.h).
//
// Errors of the disk are ignored, but the lines that it did not accept are written together with
// the next one. One owner; a write to the file blocks.
#include <cstddef>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "actors/base/log/line.h"
#include "actors/head/intra_job/shell/job_clock.h"
#include "proto/base/ids.h"

namespace es::actors {

inline constexpr std::size_t kLogLinesMax = 10'000;  // in memory

class JobLog {
 public:
  using OnLine = std::function<void(const std::string& line)>;
  // Begins with the lines of an earlier head in `file`; an empty path: lines are kept in memory
  // only. `clock` outlives this object. `on_line` is called for every new line.
  JobLog(JobId job, const std::filesystem::path& file, const JobClock& clock, OnLine on_line);

  void write(const std::string& text, log::Level level = log::Level::kInfo);
  // In the form of log::format_job_line, oldest first.
  const std::deque<std::string>& lines() const { return lines_; }
  // Later lines are kept in memory only.
  void close_file() { file_.close(); }

 private:
  void keep(std::string line);
  void write_file();

  JobId job_;
  const JobClock& clock_;
  OnLine on_line_;
  std::deque<std::string> lines_;
  std::ofstream file_;
  std::size_t file_lacks_ = 0;  // newest lines that the file lacks, because its disk is full
};

}  // namespace es::actors
