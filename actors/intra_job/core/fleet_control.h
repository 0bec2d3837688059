#pragma once
// FleetControl starts and ends the worker processes of a job, gives devices back, and judges the
// loss of a worker.
//
// Invariant: a device is given back only after its process was reaped.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/intra_job/core/device_backoff.h"
#include "actors/intra_job/core/job_context.h"

namespace es::actors::intra_job {

// A job fails if this many worker processes in a row end on one device before their Hello.
inline constexpr int kStartAttemptsMax = 3;
// A job fails after this many other losses without one new version. The loss of a node counts as
// one.
inline constexpr int kLossesWithoutProgressMax = 10;

// What follows from the loss of a worker.
struct LossVerdict {
  bool new_round = false;  // the worker took part, so the others need a new round
  std::string failure{};   // why the job must fail; empty: it continues
};

class FleetControl {
 public:
  explicit FleetControl(JobContext& context) : context_(context) {}

  // A worker has said hello.
  void came_up(const Worker& worker) { failed_starts_.erase(worker.device); }
  // A version was added to the ledger.
  void made_progress() { losses_without_progress_ = 0; }

  // The process stays in the fleet until its exit is reported.
  void kill(Worker& worker);
  // Kills a process that the fleet does not know, unless its exit was reported: late messages of
  // such a worker are expected.
  void kill_unknown(Incarnation incarnation);
  // Asks the worker to end. A worker that takes no part in rounds yet has promised no generation.
  void release(Worker& worker);
  // Releases all workers, and kills those that have not said hello.
  void end_all();
  // Releases the workers that take part in rounds. The demand decides what becomes of others.
  void end_known();
  // Kills workers that were released too long ago.
  void kill_late_leavers();

  // Removes a reaped process. Returns its last state; nullopt: it is not known.
  std::optional<Worker> reaped(Incarnation incarnation);
  // Judges the loss of a worker; `worker` is a copy. `counts`: it counts against the limit of
  // losses.
  LossVerdict lost(const Worker& worker, const std::string& why, bool counts);
  // Returns whether other workers are still up on the node of this one.
  bool has_others_on_node_of(const Worker& worker) const;
  // This device gets no new process for a while, unless the job would have no known worker.
  void back_off(const DeviceId& device) { backoff_.evicted(device, context_.now); }

  // Starts processes on devices that the job wants, and gives back devices that it does not need.
  // `demand_is_refused`: the earlier demand is in force, which would bring a device back at once.
  void reconcile(const Wanted& wanted, bool demand_is_refused);

  // Processes that ended before their Hello and were replaced.
  std::uint64_t start_retries() const { return start_retries_; }

  // The end of the earliest time limit of this class; nullopt: none runs.
  std::optional<Instant> next_limit() const;

 private:
  void start_worker(const DeviceId& device);

  JobContext& context_;
  std::set<Incarnation> exited_;
  std::map<DeviceId, int> failed_starts_;
  DeviceBackoff backoff_;
  int losses_without_progress_ = 0;
  std::uint64_t start_retries_ = 0;
};

}  // namespace es::actors::intra_job
