#pragma once
// Companion: one for each job, in the head. It knows how fast the local steps of the job are on
// each device type, and computes plans from that. Its knowledge outlives the job (plan store).
//
//   Accepts   PlanQuery from the intra-job scheduler, at any time; the answer is PlanAnswer.
//             PlanListQuery from it; the answer is PlanList.
//             CapabilityReport from it: new measurements. A value that differs from C_i by more
//             than scheduler::kCapabilityChangeMin replaces it and is stored. Later plans use it.
//   Sends     PlanAnswer or PlanList to the sender of the query.
//   State     C_i, saved by (model key, batch size, device type), so that the next job of a known
//             model begins with these values. The listed plans, saved by (model key, max_p).
//   Fails     A plan store that cannot be written is reported on stderr; only history is lost.
//   Order     No order of messages is assumed.
//   Limits    kProposalsPerType proposals of each device type in an answer; scheduler::ListLimits.
//   Threads   Runs on the CAF threads. A list of plans takes milliseconds.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "actors/head/head_store.h"
#include "actors/protocol/shell/caf_messages.h"
#include "proto/messages.h"
#include "scheduler/model/model.h"
#include "scheduler/plans/plans.h"

namespace es::actors {

inline constexpr std::size_t kProposalsPerType = 3;

struct CompanionOptions {
  std::string model_key;  // common/model_key.h
  std::uint32_t batch_size = 1;
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
  caf::message answer(wire::PlanQuery::Reader query);
  caf::message list(wire::PlanListQuery::Reader query, std::uint64_t request);
  void on_report(wire::CapabilityReport::Reader report);

 private:
  struct Known {
    double steps_per_second = 0;
    std::uint64_t measurements = 0;
  };

  void learn_history();
  void save_speeds();
  scheduler::Capabilities capabilities_of(const DeviceSet& devices);
  scheduler::PlanQuery query_for(const DeviceSet& available, const DeviceSet& addable);
  scheduler::PlanList plans_for(const scheduler::PlanQuery& query);

  CompanionOptions options_;
  std::shared_ptr<HeadStore> store_;
  std::map<DeviceType, Known> known_;
  std::set<DeviceType> unsaved_;  // types in known_ that are not saved yet
};

caf::behavior companion_actor(caf::stateful_actor<CompanionState>* self, CompanionOptions options,
                              std::shared_ptr<HeadStore> store);

}  // namespace es::actors
