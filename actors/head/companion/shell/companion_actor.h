#pragma once
// Companion: one for each job, in the head. It computes plans for the job, and it is the job's
// access to the plan store, which outlives the job: the speeds and the communication that similar
// jobs have measured, and listed plans. The job itself owns its capabilities C_i and what it knows
// of its communication (core/job_speeds.h), and sends both along with each query. The companion
// adds the speeds of other device types, from the store or assumed, and the communication at other
// numbers of devices, from the store.
//
//   Accepts   PlanQuery from the intra-job scheduler, at any time; the answer is PlanAnswer.
//             PlanListQuery from it; the answer is PlanList.
//             CapabilityReport from it: new measurements. A value that differs from the stored one
//             by more than scheduler::kCapabilityChangeMin replaces it. New points of communication
//             replace those at the same number of devices.
//   Sends     PlanAnswer or PlanList to the sender of the query. CapabilityReport to the cluster
//             scheduler when it has replaced a speed.
//   State     The speeds of (model key, batch size), by device type, and the communication. Both
//             are read from the store with each message, because similar jobs that run at the same
//             time store theirs, so a job that waits is judged by the newest values. The listed
//             plans are stored by (model key, max_p).
//   Fails     A plan store that cannot be written is reported on stderr; what could not be written
//             is kept and written with the next report. Only history is lost.
//   Order     No order of messages is assumed.
//   Limits    kProposalsPerType proposals of each device type in an answer; scheduler::ListLimits.
//   Threads   Runs on the CAF threads. A list of plans takes milliseconds.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/base/protocol/core/job_plans.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/head/head_store.h"
#include "proto/messages.h"
#include "scheduler/model/model.h"
#include "scheduler/plans/plans.h"

namespace es::actors {

inline constexpr std::size_t kProposalsPerType = 3;

struct CompanionOptions {
  std::string model_key;  // admission/model_key.h
  std::uint32_t batch_size = 1;
  // Similar jobs, which share what they measure.
  bool is_similar(const CompanionOptions& other) const {
    return model_key == other.model_key && batch_size == other.batch_size;
  }
  std::uint32_t max_p = 1;
  std::uint32_t max_devices = 0;  // 0 for max_p
  bool mix_types = false;
};

// The speed that is assumed of a device type before it is measured: relative speeds of the CPU
// kernel classes, in local steps per second. Only ratios matter: if other types are measured, an
// assumed speed is multiplied by the median of their measured / assumed.
double assumed_capability(const DeviceType& type);

class CompanionState {
 public:
  void init(CompanionOptions options, std::shared_ptr<HeadStore> store);
  protocol::PlanAnswer answer(const protocol::PlanQuery& query);
  Msg<wire::PlanList> list(const protocol::PlanListQuery& query, std::uint64_t request);
  // Returns the speeds that it has replaced.
  protocol::CapabilityReport on_report(const protocol::CapabilityReport& report);

 private:
  struct Stored {
    double steps_per_second = 0;
    std::uint64_t measurements = 0;
  };
  // The capabilities of some device types, ascending by type.
  struct Speeds {
    std::vector<protocol::Capability> capabilities;
    bool any_measured = false;  // of these or of any other type
  };

  void load_history();
  void load_sync();
  void save_history();
  Speeds speeds_of(const DeviceSet& devices, const std::vector<protocol::Capability>& measured);
  scheduler::PlanQuery query_for(const DeviceSet& available, const Speeds& speeds,
                                 const std::vector<scheduler::SyncPoint>& measured);
  // The stored communication, replaced by what the job has measured.
  scheduler::SyncCurve sync_of(const std::vector<scheduler::SyncPoint>& measured);
  void save_sync();
  scheduler::PlanList plans_for(const scheduler::PlanQuery& query);

  CompanionOptions options_;
  std::shared_ptr<HeadStore> store_;
  std::map<DeviceType, Stored> history_;
  std::set<DeviceType> unsaved_;  // types in history_ that could not be saved yet
  scheduler::SyncCurve sync_history_;
  bool sync_unsaved_ = false;
};

caf::behavior companion_actor(caf::stateful_actor<CompanionState>* self, CompanionOptions options,
                              std::shared_ptr<HeadStore> store, caf::actor cluster);

}  // namespace es::actors
