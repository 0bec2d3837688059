#pragma once
// DeviceFaults judges tries of jobs to use devices: whose fault a failed one is, what is set aside
// because of it, and for how long.
//
//   its node   A node that could not even start the process: the job had no part in it. The device
//              is set aside. When a second device of the node fails, or the node had been set aside
//              before, the whole node is.
//   not known  The process ran the program of the job, so the fault may be in either. The device is
//              set aside, and the job is given no other one of the node meanwhile, and none at all
//              while it can be tried on a node where it has not failed. The whole node is set aside
//              when two jobs have failed there. A job that has nothing else to use sets nothing
//              aside, because it can only be tried there again. When it has failed on two nodes, or
//              too often on one, the job itself gives up (intra_job/core/program_faults.h).
//   none       The node is sound, but has kernels that would give this job other bits. Only the job
//              is given no device of it meanwhile.
//   a link     Two nodes whose processes cannot reach each other: no job is given devices of both.
//              A node that cannot reach two others is given alone.
//
// Everything set aside returns by itself when its pause ends. Each further pause of the same is
// longer, until a job has computed there. One job keeps at most one device out of use, and none
// when it is over. Pure state; not thread-safe.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/protocol/core/growing_pauses.h"
#include "actors/base/protocol/core/job_cluster.h"
#include "proto/base/ids.h"

namespace es::actors {

class DeviceFaults {
 public:
  // What follows from a failed try.
  struct Ruling {
    std::optional<Instant> end{};    // of the pause; nullopt: no device is set aside
    bool whole_node = false;         // all devices of the node, not only this one
    std::optional<DeviceId> back{};  // this one may be used again
  };
  // `has_choice`: the job holds other devices, or a node exists on which it has not failed.
  Ruling failed(const JobId& job, const protocol::DeviceFailed& event, bool has_choice,
                Instant now);
  // A node that may be used again, or one device of it.
  struct Back {
    std::string node;
    std::optional<DeviceId> device{};
  };
  std::vector<Back> work(const JobId& job, const std::vector<DeviceId>& devices);
  std::vector<Back> ended(const JobId& job);
  // Its daemon was started again, or an operator has cleared it.
  void forget(const std::string& node);

  // The nodes whose devices the job is not given now. `usable`: the nodes with devices that it
  // could be given.
  std::set<std::string> avoided(const JobId& job, const std::set<std::string>& usable,
                                Instant now) const;
  // Whether nothing has failed that a job which computes could prove sound.
  bool empty() const {
    return nodes_.empty() && whole_.empty() && jobs_.empty() && device_pauses_.empty() &&
           node_pauses_.empty() && links_.empty();
  }
  // The jobs that have failed anywhere, for no fault of a node alone, until they end.
  bool has_failed(const JobId& job) const { return jobs_.contains(job); }
  std::vector<JobId> failed_jobs() const;
  // Whether no job is given devices of both nodes.
  bool are_cut(const std::string& a, const std::string& b, Instant now) const;
  // The nodes which the processes of this one cannot reach, with the end of the pause, ascending.
  std::vector<std::pair<std::string, Instant>> cut_from(const std::string& node, Instant now) const;
  bool has_cuts(Instant now) const { return links_.first_end(now).has_value(); }
  // When the next pause of a job or of a link ends; nullopt: none runs. Those of devices and nodes
  // are known to the receiver of the ruling.
  std::optional<Instant> next_end(Instant now) const;

 private:
  // What has failed on a node since a job has computed there.
  struct Failure {
    JobId job;
    bool by_node = false;
  };
  using Failures = std::map<DeviceId, Failure>;
  struct JobFaults {
    std::set<std::string> failed_on;    // nodes, since it has last computed
    GrowingPauses<std::string> pauses;  // of nodes
    std::optional<DeviceId> aside{};    // by its failures, whose cause is not known
  };
  using Link = std::pair<std::string, std::string>;  // ascending

  bool is_bad(const std::string& node) const;
  std::size_t partners(const std::string& node, Instant now) const;

  std::map<std::string, Failures> nodes_;
  std::set<std::string> whole_;  // nodes that were set aside, since a job has computed there
  std::map<JobId, JobFaults> jobs_;
  GrowingPauses<DeviceId> device_pauses_;
  GrowingPauses<std::string> node_pauses_;
  GrowingPauses<Link> links_{kLinkPauseShortest};
};

}  // namespace es::actors
