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

#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/program_faults.h"

namespace es::actors::intra_job {

// A job fails after this many losses without one new version, whatever caused them. The loss of a
// node counts as one.
inline constexpr int kLossesWithoutProgressMax = 10;

// How a worker was lost.
struct Loss {
  std::string why;  // for users, after the name of the worker
  EndCause cause = EndCause::kKilled;
  std::string way{};  // as in WorkerExited
  PauseCause pause = PauseCause::kWorkerLost;
  bool counts = true;  // against kLossesWithoutProgressMax
};

// What follows from the loss of a worker.
struct LossVerdict {
  bool new_round = false;  // the worker took part, so the others need a new round
  bool may_fail = false;   // further losses of this kind end the job
  Status job{};            // an error: the job must fail
};

class FleetControl {
 public:
  explicit FleetControl(JobContext& context) : context_(context) {}

  // A version was added to the ledger. All members have had a part in it.
  void made_progress();

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
  // Judges the loss of a worker; `worker` is a copy.
  LossVerdict lost(const Worker& worker, const Loss& loss);
  // Returns whether other workers are still up on the node of this one.
  bool has_others_on_node_of(const Worker& worker) const;
  // The job gives this device back, and wants no other one of its node for a while: a process there
  // would give other bits.
  void leave_device(const DeviceId& device, const std::string& why);
  // The job leaves its devices on the node of this one, because `other` cannot be reached from
  // there; if that is the same node, only this device. Returns the known workers on them.
  std::vector<Incarnation> leave_node(const DeviceId& device, const std::string& other,
                                      const std::string& why);

  // Starts processes on devices that the job wants, and gives back devices that it does not need.
  // `demand_is_refused`: the earlier demand is in force, which would bring a device back at once.
  void reconcile(const Wanted& wanted, bool demand_is_refused);

  // Processes that ended before their Hello.
  std::uint64_t start_retries() const { return start_retries_; }

  // The end of the earliest time limit of this class; nullopt: none runs.
  std::optional<Instant> next_limit() const;

 private:
  void start_worker(const DeviceId& device);
  bool others_work(const Worker& worker) const;
  Status judge(const Worker& worker, const Loss& loss, const std::string& text);

  JobContext& context_;
  std::set<Incarnation> exited_;
  ProgramFaults program_;
  int losses_without_progress_ = 0;
  std::uint64_t start_retries_ = 0;
};

}  // namespace es::actors::intra_job
