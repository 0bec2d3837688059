#pragma once
// The messages between a job and its companion as plain values; protocol/wire/job_plans_codec.h has
// their form as Cap'n Proto (cluster.capnp). Plain values without locks.
//
// The job owns the capabilities C_i that it has measured. It sends them along with a query, and the
// companion adds those of other types: what similar jobs have measured so far, or assumed.
#include <cstdint>
#include <vector>

#include "proto/base/device.h"
#include "scheduler/model/sync.h"
#include "scheduler/plans/proposal.h"

namespace es::actors::protocol {

// C_i of the waste model: the speed of one device of a type (docs/SCHEDULING.md).
struct Capability {
  DeviceType type;
  double steps_per_second = 0;  // local steps, > 0
  bool measured = false;        // by this job or by a similar one; false: assumed
  bool operator==(const Capability&) const = default;
};

// Job -> companion: rank the plans for these devices. Answer: PlanAnswer.
struct PlanQuery {
  DeviceSet held;
  DeviceSet addable;                   // devices that the cluster has in addition to `held`
  std::uint64_t steps_left = 0;        // global steps of the job
  double rescale_seconds = 0;          // pause of a change of devices, measured or assumed
  std::vector<Capability> measured{};  // what the job has measured itself, ascending by type
  // What the job has measured of its communication, ascending by devices.
  std::vector<scheduler::SyncPoint> sync{};
  bool operator==(const PlanQuery&) const = default;
};

// Companion -> job: the answer to PlanQuery.
struct PlanAnswer {
  std::vector<scheduler::Proposal> proposals;  // best first
  std::vector<Capability> capabilities;        // of the queried types that PlanQuery did not name
  // What similar jobs have measured at numbers of devices that PlanQuery did not name.
  std::vector<scheduler::SyncPoint> sync{};
  bool operator==(const PlanAnswer&) const = default;
};

// Job -> companion: list the plans for these devices. The answer is the message PlanList
// (client.capnp), which is passed on to a client as it is.
struct PlanListQuery {
  DeviceSet available;
  std::vector<Capability> measured{};        // as in PlanQuery
  std::vector<scheduler::SyncPoint> sync{};  // as in PlanQuery
  bool operator==(const PlanListQuery&) const = default;
};

// Job -> companion: new measurements, to be stored for similar jobs. Companion -> cluster
// scheduler: the speeds that were stored, so that these jobs ask for plans again.
struct CapabilityReport {
  std::vector<Capability> reports;
  std::vector<scheduler::SyncPoint> sync{};
  bool operator==(const CapabilityReport&) const = default;
};

}  // namespace es::actors::protocol
