#pragma once
// How long a head keeps what it knows of jobs that are over.
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/base/ids.h"

namespace es::actors::cluster {

// By default everything is kept.
struct Retention {
  std::optional<std::uint64_t> jobs;             // at most this number of jobs that are over
  std::optional<std::chrono::milliseconds> age;  // at most this long after their end
  bool is_limited() const { return jobs || age; }
};

// A job that is over.
struct PastJob {
  JobId id;
  std::uint64_t ended_unix_ms = 0;  // 0: not known; it counts as the oldest, and has no age
};

// The jobs that are kept no more, the oldest end first; of equal ends the first of `jobs`, which
// are in the order of submission.
std::vector<JobId> not_kept(const Retention& retention, std::vector<PastJob> jobs,
                            std::uint64_t now_unix_ms);

}  // namespace es::actors::cluster
