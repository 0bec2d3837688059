#pragma once
// The last line of the log of a job, "job ended: finished". Programs that read logs wait for it.
//
// It is written after the end of the job is on disk, so a head that dies in between leaves a log
// without it. The next head then writes it.
#include <chrono>
#include <filesystem>
#include <string>

#include "actors/base/log/line.h"
#include "proto/base/job_record.h"

namespace es::actors {

struct JobLogEnd {
  std::string text;
  log::Level level = log::Level::kInfo;
};
// `error`: why the job failed; empty if there is none.
JobLogEnd job_log_end(JobState state, const std::string& error);

// Appends the last line if the log exists and does not end with one. A line that was written only
// partly stays as it is. Blocks; errors of the disk are ignored, as for every line of a log.
void complete_job_log(const std::filesystem::path& file, const JobLogEnd& end,
                      std::chrono::system_clock::time_point now);

}  // namespace es::actors
