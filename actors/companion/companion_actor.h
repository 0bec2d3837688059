#pragma once
// Companion: one per job, in the head; knows how fast the job's local steps are on each device type
// and what plans that makes possible. Its knowledge outlives the job (plan store).
//
// Accepts   PlanQuery from the intra-job scheduler -> PlanAnswer, at any time.
//           CapabilityReport from it: new measurements; stored, the plans are ranked anew.
// Sends     PlanAnswer to whoever asked.
// State     capabilities C_i; saved by (model, batch size, device type). The ranked plans; saved by
//           (model, max_p).
// Fails     A plan store that cannot be written is told on stderr and costs only the history.
// Order     None assumed.
// Limits    kProposalsPerType proposals of each device type in an answer.
// Threads   Cooperative.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>
#include <string>

#include "actors/common/caf_messages.h"
#include "actors/head/head_store.h"
#include "proto/messages.h"
#include "scheduler/model.h"
#include "scheduler/plans.h"

namespace es::actors {

inline constexpr std::size_t kProposalsPerType = 3;

struct CompanionOptions {
  std::string model_key;
  std::uint32_t batch_size = 1;
  std::uint32_t max_p = 1;
  std::uint32_t max_devices = 0;  // 0 = max_p
  bool mix_types = false;
};

// What is assumed of a device type before one has reported: relative speeds of the CPU kernel
// classes, in local steps per second. Only ratios matter until the first measurement.
double assumed_capability(const DeviceType& type);

class CompanionState {
 public:
  void init(CompanionOptions options, std::shared_ptr<HeadStore> store);
  caf::message answer(wire::PlanQuery::Reader query);
  void on_report(wire::CapabilityReport::Reader report);

 private:
  scheduler::PlanQuery query_for(const DeviceSet& available, const DeviceSet& addable) const;
  void remember_plans(const DeviceSet& everything);

  CompanionOptions options_;
  std::shared_ptr<HeadStore> store_;
  struct Known {
    double steps_per_second = 0;
    std::uint64_t measurements = 0;  // 0: assumed
  };
  std::map<DeviceType, Known> known_;
  DeviceSet planned_for_;  // the devices of the plans in the store
  bool plans_stale_ = true;
};

caf::behavior companion_actor(caf::stateful_actor<CompanionState>* self, CompanionOptions options,
                              std::shared_ptr<HeadStore> store);

}  // namespace es::actors
