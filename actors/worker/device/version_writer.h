#pragma once
// VersionWriter: the thread of the device half that writes checkpoints, one after the other, while
// the device thread continues with the steps.
//
// The thread has the lowest priority, so that it uses only processor time that the steps leave. It
// is not a CAF thread, because those serve other actors afterwards, and a thread cannot raise its
// priority again.
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "actors/worker/core/worker_events.h"
#include "actors/worker/device/snapshot.h"

namespace es::actors::worker {

class VersionWriter {
 public:
  // `report` is called on the writer's thread, once for every write() and in the same order.
  using Report = std::function<void(CheckpointFinished)>;
  explicit VersionWriter(Report report);
  // Abandons the running write and the waiting ones without a report, and joins the thread.
  ~VersionWriter();
  VersionWriter(const VersionWriter&) = delete;
  VersionWriter& operator=(const VersionWriter&) = delete;

  // Queues `snapshot` to be written as `asked` says. Returns at once. Thread-safe.
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
  std::shared_ptr<gpu::FrozenReplica> reading_;  // of the snapshot that is being written
  std::jthread thread_;  // the last member, so that it ends before the others are destroyed
};

}  // namespace es::actors::worker
