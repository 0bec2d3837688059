#pragma once
// HeadOracle watches every message of a simulation and checks from the messages alone what the
// actors of the head promise each other:
//
//   one owner       a device is granted to a job only when no other job owns it: its last owner has
//                   given it back, after the process there had ended
//   one process     a process is started only on a device that its job was given, and only if no
//                   other process runs there
//   proposals       a job that holds devices and keeps one of them is granted at most the number of
//                   each type that it proposed for the devices that it held
//   refusals        no grant leaves a job with devices that it refuses
//   progress        a job reports at most the steps from which its workers continue; steps that are
//                   lost with all workers have to be done again
//   ESTs            the members of a placement have all ranks, each rank once
//   nothing left    a job that has ended has no process and no device
//   holding         a job is given at most max_p devices. Beside them it holds those that it has to
//                   give back, until it steps without them: together at most twice max_p
#include <caf/mailbox_element.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/sim/shell/workload.h"
#include "proto/messages.h"
#include "scheduler/grants/refusal.h"

namespace es::actors::simulator {

// A period in which a job stepped on its devices, from Go until it had to stop or lost a member.
struct Placement {
  JobId job;
  double from_s = 0, to_s = -1;  // -1: until its end.
  DeviceSet devices;
  double step_s = 0;  // By the speeds of the workload.
};

class HeadOracle {
 public:
  // `sync_s`: WorldOptions::sync_s, for Placement::step_s.
  explicit HeadOracle(const Workload& workload, double sync_s = 0)
      : workload_(workload), sync_s_(sync_s) {}

  void see(Instant now, std::uint64_t receiver, const caf::mailbox_element& message);

  // Descriptions of broken promises; a few at most.
  const std::vector<std::string>& violations() const { return violations_; }
  const std::vector<Placement>& placements() const { return placements_; }
  // The number of checks of each kind.
  std::uint64_t grants() const { return grants_; }
  std::uint64_t taken_back() const { return taken_back_; }
  std::uint64_t growths() const { return growths_; }  // Grants beside devices that were kept.
  // Devices x seconds that each job owned: from the Allocation that grants a device until the job
  // releases it or its node is lost.
  const std::map<JobId, double>& owned_device_s() const { return owned_device_s_; }
  // How often a job owned more devices than its max_p, because it held old ones and new ones.
  std::uint64_t beyond_max_p() const { return beyond_max_p_; }

 private:
  struct Job {
    std::size_t index = 0;  // The index in the workload.
    std::set<DeviceId> allocated;
    std::uint64_t sequence = 0;  // The number of the last Allocation.
    std::vector<DeviceId> releases;
    // For each sequence number of an Allocation: the largest proposal of each type relative to it.
    std::map<std::uint64_t, std::map<DeviceType, std::uint32_t>> proposed;
    std::vector<protocol::Member> members;
    std::vector<scheduler::Refusal> refusals;
    double told_steps = 0;      // The number of local steps that the job reports as done.
    Version version = 0;        // The version that its workers hold, as far as the head knows.
    std::size_t placement = 0;  // The number of the running one + 1; 0: none.
  };

  // Messages to the cluster scheduler.
  void on(const Msg<wire::Demand>& demand, std::uint64_t sender);
  void on(const Msg<wire::DeviceReleased>& released);
  void on_ended(const JobId& job);
  // Messages to a job.
  void on(const Msg<wire::Allocation>& allocation, std::uint64_t receiver);
  void note_refusals(Job& job, wire::Demand::Reader r);
  void judge_progress(const JobId& id, Job& job, wire::JobProgress::Reader r);
  void judge_holding(const JobId& id, const Job& job);
  void advance(double now_s);
  bool is_lost(const DeviceId& device) const;
  void judge_growth(const JobId& id, const Job& job, const std::set<DeviceId>& now,
                    std::uint64_t sequence);
  // Messages between the head and the world.
  void on_inbound(const Inbound& inbound);
  void on_committed(const Inbound& inbound);
  void on_outbound(const Outbound& outbound);
  void on_peer_down(const PeerDown& down);
  void on_start(const std::shared_ptr<const Frame>& frame);
  void on(const JobId& id, const protocol::Install& install);
  void on(const JobId& id, const protocol::Go& go);
  void end_process(Incarnation incarnation);
  void end_placement(Job& job);

  void violated(const std::string& what);

  const Workload& workload_;
  const double sync_s_;
  double now_s_ = 0;
  std::map<JobId, Job> jobs_;
  std::map<std::uint64_t, JobId> job_of_actor_;
  std::map<DeviceId, JobId> owner_;
  std::map<Incarnation, DeviceId> processes_;
  std::map<DeviceId, Incarnation> running_;
  std::set<PeerId> lost_nodes_;
  std::vector<Placement> placements_;
  std::vector<std::string> violations_;
  std::map<JobId, double> owned_device_s_;
  std::uint64_t beyond_max_p_ = 0;
  std::uint64_t grants_ = 0, taken_back_ = 0, growths_ = 0;
};

}  // namespace es::actors::simulator
