#pragma once
// Checkpoints handles every checkpoint of a job: those that clients request, those of the job's own
// series (periodic_checkpoints.h), that of the best version (CheckpointSpec::keep_best), and the
// one with which the job gives up all its devices (a suspension, suspension.h). It decides which
// ones stay.
//
// Any member can write, because each holds a whole version. A round makes the writer forget a
// request, so requests are repeated after Go. A checkpoint is valid only if the ledger contains its
// version.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/periodic_checkpoints.h"
#include "actors/head/intra_job/core/restart_point.h"
#include "actors/head/intra_job/core/run_progress.h"

namespace es::actors::intra_job {

class Checkpoints {
 public:
  // `suspension_done` is called once for each call of ask_for_suspension(), unless
  // forget_suspension() was called before.
  Checkpoints(JobContext& context, const RestartPoint& restart, const RunProgress& progress,
              std::function<void(const Status&)> suspension_done);

  // --- requests
  void request(const CheckpointCommand& command);
  // Requests a checkpoint of the version at which the members stand, unless this was done already.
  void ask_for_suspension();
  // The next generation writes to a directory of its own.
  void forget_suspension();
  // Sends the open requests to a member. REQUIRES: there are members.
  void ask();
  // Plans the next checkpoint of the series, and requests it if members step.
  void ask_for_periodic();
  // Returns whether the checkpoint of this version, the best one, is kept or has failed. Otherwise
  // it requests it from a member. REQUIRES: members are at work and stay at most at this version.
  bool keep_best(Version version);
  // The job ends earlier, at JobContext::last_version.
  void end_at_last_version();
  // Requests what failed in its first directory once more, in the second one.
  void ask_elsewhere();
  // Sets the version from which on the checkpoints of the end may be written. Returns whether
  // anything changed.
  bool move_at_end(Version version);
  // Returns whether a checkpoint of the end is requested and not written.
  bool has_at_end() const { return !at_end_.empty(); }
  // Answers the requests of clients, except those of the end, while there is nothing that could be
  // written: without a process and a device the newest state of the job is saved already, or lost.
  void answer_while_waiting();
  // Returns whether nothing is requested that is not written.
  bool has_no_open_request() const { return requested_.empty() && !periodic_.pending() && !best_; }

  // --- answers
  void written(const Worker& worker, const protocol::CheckpointWritten& message);
  // This worker will not answer any more.
  void no_answer_from(Incarnation worker);
  // Accepts reported checkpoints whose versions are in the ledger by now.
  void take_written();
  // The reported checkpoints that were not accepted yet are lost.
  void drop_written(const std::string& why);
  // Refuses all open requests.
  void refuse_all(const std::string& why);

  // --- what stays on disks; REQUIRES: the record is saved
  // Tells the nodes on which the job may have written suspension checkpoints, except for `but`,
  // which of them to keep. These are the nodes on which it has run. They are all nodes if an
  // earlier head had the job, or if one of them is away, because others may share its disk.
  void keep_suspensions(const std::set<std::string>& but = {});
  // Removes the states from all their nodes, and from `also` if it is not empty: a node that shares
  // a directory with a node that is away.
  void remove_from_nodes(const std::vector<CheckpointRef>& states, const std::string& also = "");
  // Suspension checkpoints on nodes that are away are about to be dropped, and these nodes learn it
  // only when they return: the log names them.
  void report_remaining_suspensions();

  // --- audits (rewind.h)
  // The checkpoint of the series that was requested from a worker may be on the disk already.
  void give_up_unfinished(Version good);
  // Forgets the checkpoints that may be spoiled and returns those that have to be removed.
  std::vector<CheckpointRef> give_up_newer(Version good);
  void restart_series();

  // Error: the state of the last version was saved nowhere although the job writes checkpoints.
  Status check_result_saved() const;
  // The last failure to write a checkpoint of the series; empty: none, or a later one was written.
  const std::string& warning() const { return warning_; }
  const CheckpointCounts& counts() const { return counts_; }

 private:
  // A checkpoint that was requested and is not written yet. After a round another worker may be
  // asked for it while the first one still writes. Then the first worker has created the directory,
  // and the second one is refused.
  struct Requested {
    std::uint64_t request = 0;
    std::string directory;
    bool make_parent = false;
    std::set<Incarnation> asked{};   // asked workers that have neither answered nor ended
    std::optional<Error> why_not{};  // the error that one of them reported
    Version at = 0;                  // the oldest version that may be written
    std::string otherwise{};         // directory to try after the first one has failed
    std::string first_error{};       // error of the first directory, once it has failed
  };
  // The checkpoint of the best version, which is not written yet.
  struct Best {
    std::uint64_t request = 0;
    Version version = 0;
    Generation asked;  // whose member was asked
  };
  // A checkpoint that a worker has reported as written, and the node on whose disk it lies.
  struct Written {
    protocol::CheckpointWritten message;
    std::string node;
  };

  // Whether the job itself has requested it, for its series or for its best version.
  bool is_best(std::uint64_t request) const { return best_ && best_->request == request; }
  bool is_own(std::uint64_t request) const {
    return periodic_.is_pending(request) || is_best(request);
  }
  void best_failed(const std::string& why);
  std::vector<std::string> replaced_paths(std::uint64_t request, const std::string& path) const;
  void done(std::uint64_t request, Result<CheckpointTaken> result);
  bool try_elsewhere(Requested& requested);
  void periodic_failed(const std::string& why);
  void take(const Written& written);
  void record_checkpoint(const CheckpointRef& written, std::uint64_t request);
  std::vector<CheckpointRef> replaced_by(const CheckpointRef& written,
                                         const std::vector<std::string>& removed) const;

  JobContext& context_;
  const bool ran_before_;  // under an earlier head
  const RestartPoint& restart_;
  const RunProgress& progress_;
  std::function<void(const Status&)> suspension_done_;
  std::vector<Requested> requested_;
  std::set<std::uint64_t> at_end_;  // unanswered requests for a checkpoint of the last version
  std::vector<Written> written_;    // reported, but newer than the ledger
  // By request: the error of the first directory, for a checkpoint that went to the second one.
  std::map<std::uint64_t, std::string> first_errors_;
  bool ask_again_ = false;  // a checkpoint has to be requested in its second directory
  PeriodicCheckpoints periodic_;
  std::optional<Best> best_;
  std::uint64_t bests_ = 0;  // that were requested by this head
  Version best_failed_ = 0;  // the best version whose checkpoint could not be written
  std::string warning_;
  CheckpointCounts counts_;
};

}  // namespace es::actors::intra_job
