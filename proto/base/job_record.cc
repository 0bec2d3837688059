#include "proto/base/job_record.h"

namespace es {

const char* state_name(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kStarting:
      return "starting";
    case JobState::kRunning:
      return "running";
    case JobState::kRescaling:
      return "rescaling";
    case JobState::kPaused:
      return "paused";
    case JobState::kFinished:
      return "finished";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
    case JobState::kTimedOut:
      return "timed-out";
  }
  return "?";
}

}  // namespace es
