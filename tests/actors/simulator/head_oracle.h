#pragma once
// HeadOracle: watches every message of a simulation and judges what the actors of the head promise
// each other, from the messages alone.
//
//   one owner       a device is granted to a job only when no other job owns it: its last owner has
//                   given it back, after the process there had ended
//   one process     a process is started only on a device that its job was given, and where none
//                   runs
//   proposals       a job that holds something and keeps some of it is granted at most what it
//                   proposed of a type for the devices that it held
//   refusals        no grant leaves a job with devices that it refuses
//   progress        a job says that it has done no more steps than those from which its workers go
//                   on; what is lost with all of them, it has to do again
//   ESTs            the members of a placement have all ranks, each once
//   nothing left    a job that is over has no process and no device
//   holding         a job is given at most max_p devices. Beside them it holds those that it was
//                   told to give back, until it steps without them: together at most twice max_p
#include <caf/mailbox_element.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/gateway/shell/gateway_messages.h"
#include "actors/protocol/core/instant.h"
#include "actors/protocol/core/messages.h"
#include "actors/simulator/shell/workload.h"
#include "proto/messages.h"
#include "scheduler/grants/refusal.h"

namespace es::actors::simulator {

// What a job stepped on, from Go until it was asked to stop or lost somebody.
struct Placement {
  JobId job;
  double from_s = 0, to_s = -1;  // -1: until its end
  DeviceSet devices;
  double step_s = 0;  // by the speeds of the workload
};

class HeadOracle {
 public:
  // `sync_s`: WorldOptions::sync_s, for Placement::step_s.
  explicit HeadOracle(const Workload& workload, double sync_s = 0)
      : workload_(workload), sync_s_(sync_s) {}

  void see(Instant now, std::uint64_t receiver, const caf::mailbox_element& message);

  // What was not as promised, in words; at most a few.
  const std::vector<std::string>& violations() const { return violations_; }
  const std::vector<Placement>& placements() const { return placements_; }
  // How much there was to judge.
  std::uint64_t grants() const { return grants_; }
  std::uint64_t taken_back() const { return taken_back_; }
  std::uint64_t growths() const { return growths_; }  // grants beside devices that were kept
  std::uint64_t refusals() const { return refusals_; }
  // Devices x seconds that each job owned: from the Allocation that grants a device until the job
  // releases it, or its node is lost.
  const std::map<JobId, double>& owned_device_s() const { return owned_device_s_; }
  // How often a job owned more devices than its max_p, old ones beside new ones.
  std::uint64_t beyond_max_p() const { return beyond_max_p_; }

 private:
  struct Job {
    std::size_t index = 0;  // in the workload
    std::set<DeviceId> allocated;
    std::uint64_t sequence = 0;  // of the last Allocation
    std::vector<DeviceId> releases;
    // By the sequence of the Allocation that they are relative to: the most of each type.
    std::map<std::uint64_t, std::map<DeviceType, std::uint32_t>> proposed;
    std::vector<protocol::Member> members;
    std::vector<scheduler::Refusal> refusals;
    double told_steps = 0;      // local steps that it has done, as it says
    Version version = 0;        // that its workers hold, as far as the head was told
    std::size_t placement = 0;  // number of the one that runs + 1; 0: none
  };

  // To the cluster scheduler.
  void on(const Msg<wire::Demand>& demand, std::uint64_t sender);
  void on(const Msg<wire::DeviceReleased>& released);
  void on_ended(const JobId& job);
  // To a job.
  void on(const Msg<wire::Allocation>& allocation, std::uint64_t receiver);
  void note_refusals(Job& job, wire::Demand::Reader r);
  void judge_progress(const JobId& id, Job& job, wire::JobProgress::Reader r);
  void judge_holding(const JobId& id, const Job& job);
  void advance(double now_s);
  bool is_lost(const DeviceId& device) const;
  void judge_growth(const JobId& id, const Job& job, const std::set<DeviceId>& now,
                    std::uint64_t sequence);
  // Between head and world.
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
  std::uint64_t grants_ = 0, taken_back_ = 0, growths_ = 0, refusals_ = 0;
};

}  // namespace es::actors::simulator
