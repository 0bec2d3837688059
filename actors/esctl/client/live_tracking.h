#pragma once
// LiveTracking: keeps the trackers of a job up to date while a command follows it.
//
// Not thread-safe. A tracker that fails does not end the command: the points stay in the ledger of
// the job and are offered again.
#include <chrono>
#include <memory>
#include <optional>

#include "actors/esctl/client/client.h"
#include "actors/views/console.h"
#include "actors/views/trackers/job_tracking.h"

namespace es::actors::esctl {

class LiveTracking {
 public:
  // `reader` is a connection of its own, because one that follows a job cannot ask meanwhile.
  // `console` must outlive this object. REQUIRES: check_tracking(options).
  LiveTracking(TrackingOptions options, std::unique_ptr<Client> reader, Console& console)
      : options_(std::move(options)), reader_(std::move(reader)), console_(console) {}

  // Writes what is new, at most once a second. The first error of a series becomes a warning.
  void see(const JobView& view);
  // Writes everything that the job has by now, and its end if it is over. Errors: those of
  // JobTracking and of the head.
  Status finish(const JobView& view);

 private:
  Status update(const JobView& view);

  const TrackingOptions options_;
  const std::unique_ptr<Client> reader_;
  Console& console_;
  std::optional<JobTracking> tracking_;  // set when the records could be begun
  std::chrono::steady_clock::time_point updated_{};
  bool failing_ = false;
};

}  // namespace es::actors::esctl
