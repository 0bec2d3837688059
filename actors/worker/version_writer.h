#pragma once
// VersionWriter: the thread of a worker's device half that writes checkpoints, one after the other,
// while the device's own thread goes on with the steps.
//
// Priority: the lowest, so that it takes what the steps leave of the processors. (Not one of CAF's
// threads: those serve others afterwards, and a thread cannot raise its priority again.)
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "actors/worker/snapshot.h"
#include "actors/worker/worker_events.h"

namespace es::actors::worker {

class VersionWriter {
 public:
  // `report` is called on the writer's thread, once for every write(), in order.
  using Report = std::function<void(CheckpointFinished)>;
  explicit VersionWriter(Report report);
  // Gives up what is being written and what waits, without a report, and waits for the thread.
  ~VersionWriter();
  VersionWriter(const VersionWriter&) = delete;
  VersionWriter& operator=(const VersionWriter&) = delete;

  // Has `snapshot` written as `asked` says. Returns at once. Thread-safe.
  void write(Snapshot snapshot, WriteVersion asked);

 private:
  struct Job {
    Snapshot snapshot;
    WriteVersion asked;
  };
  void work(const std::stop_token& stop);
  std::optional<Job> next_job(const std::stop_token& stop);

  Report report_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> waiting_;
  std::shared_ptr<gpu::FrozenReplica> reading_;  // of the one that is being written
  std::jthread thread_;                          // last: ends before the rest goes
};

}  // namespace es::actors::worker
