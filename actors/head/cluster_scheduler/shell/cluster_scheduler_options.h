#pragma once
// ClusterSchedulerOptions: what the daemon decides about the cluster scheduler. Plain values and
// functions, which do not change while the actor runs and are called by its thread.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/head/admission/admission.h"
#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "actors/head/cluster_scheduler/core/retention.h"
#include "store/path_roots.h"

namespace es::actors {

// Directories in which paths of clients must lie, by the way in which clients reach the head. The
// door (switchboard/shell/door.h) has decided before what the role of a client allows; only tenants
// are checked here.
struct ClientRoots {
  store::PathRoots direct;  // default: anywhere
  // The same for clients of the HTTP service, which may be anywhere.
  store::PathRoots http;
  const store::PathRoots& of(const PeerId& client) const {
    return client == kHttpPeer ? http : direct;
  }
};

struct ClusterSchedulerOptions {
  std::filesystem::path log_dir;         // empty: jobs keep their logs in memory only
  std::filesystem::path checkpoint_dir;  // for checkpoints of requests without a directory
  // A random text by which nodes find out whether they see the same checkpoint_dir. Empty: not
  // checked.
  std::string probe;
  std::function<std::uint64_t()> unix_ms;  // the date, for display
  // A clock, in seconds, that measures how long decisions take. If empty they are not measured, as
  // in simulated time, where a measured time would make every history another one.
  std::function<double()> stopwatch_s;
  // Called when all jobs are over after StopHead or a Shutdown: the daemon may end.
  std::function<void()> on_stopped;
  // Called if the state directory cannot be read, so that the head cannot start. Called at most
  // once.
  std::function<void(const Error&)> on_unreadable;
  // Called when a job begins or continues under this head; may be empty.
  std::function<void(const JobId&, const JobSpec&)> on_job;
  // Returns a new policy; if empty, the default policy is used.
  std::function<std::unique_ptr<scheduler::Policy>()> make_policy;
  // Sees the core after each decision, and changes nothing; may be empty.
  std::function<void(const ClusterCore&)> watch_decisions;
  cluster::Limits limits;
  ClientRoots roots;
  // Events within this time make one decision; 0: the events of one moment.
  std::chrono::nanoseconds decision_delay{0};
  // Assumed time without progress at a job's first start, for the policy.
  std::chrono::nanoseconds start_pause = std::chrono::seconds(1);
  // The same for a later change, until the job has measured one.
  std::chrono::nanoseconds rescale_pause = std::chrono::milliseconds(500);
  // The same for a suspension and the restart after it.
  std::chrono::nanoseconds suspend_pause = std::chrono::seconds(3);
  // Whether clients can ask about jobs that are over. false: nothing of such a job is kept.
  bool keep_past_jobs = true;
  cluster::Retention retention;
  // Turns a submitted text and a checkpoint path into an admitted job. Tests replace it.
  std::function<Result<AdmittedJob>(const std::string& spec_toml, const std::string& checkpoint)>
      admit = es::actors::admit;

  // Empty: jobs have no files for their logs.
  std::filesystem::path log_file_of(const JobId& job) const {
    return log_dir.empty() ? std::filesystem::path() : log_dir / (job + ".log");
  }
};

}  // namespace es::actors
