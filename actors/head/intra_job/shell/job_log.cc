#include "actors/head/intra_job/shell/job_log.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/base/log/log.h"

namespace es::actors {

JobLog::JobLog(JobId job, const std::filesystem::path& file, const JobClock& clock, OnLine on_line)
    : job_(std::move(job)), clock_(clock), on_line_(std::move(on_line)) {
  if (file.empty()) return;
  std::ifstream earlier(file);
  for (std::string line; std::getline(earlier, line);) keep(std::move(line));
  file_.open(file, std::ios::app);
}

void JobLog::keep(std::string line) {
  lines_.push_back(std::move(line));
  if (lines_.size() > kLogLinesMax) lines_.pop_front();
}

void JobLog::write(const std::string& text, log::Level level) {
  log::write(level, text, {.job = job_});
  const std::chrono::system_clock::time_point time{std::chrono::milliseconds(clock_.unix_ms())};
  const std::string line = log::format_job_line(time, level, text);
  keep(line);
  if (file_.is_open()) write_file();
  on_line_(line);
}

void JobLog::write_file() {
  file_lacks_ = std::min(file_lacks_ + 1, lines_.size());
  file_.clear();
  while (file_lacks_ > 0) {
    file_ << lines_[lines_.size() - file_lacks_] << std::endl;
    if (!file_) return;
    --file_lacks_;
  }
}

}  // namespace es::actors
