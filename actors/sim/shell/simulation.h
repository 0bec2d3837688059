#pragma once
// Simulation runs a trace on a cluster under a policy, with the actors that run a real cluster.
//
//   Real       ClusterScheduler with the policy, one IntraJobScheduler and one Companion for each
//              job with the whole round protocol, and the head's store (in memory)
//   Simulated  everything else, as world_actor.h describes
//
// Everything runs in virtual time on the calling thread. The same options give the same history,
// message by message, on any machine. history_hash covers every frame between the head and the
// world completely, and of each message inside the head its time, sender, receiver and number of
// parts.
//
// The speeds are known from the beginning, as for models that have run before: the step times are
// put into the companion's history. With WorldOptions::learns_speeds that history is empty. If so,
// or if devices become slow or steps cost more than the model says (WorldOptions::is_measured),
// workers report their measurements, and the head reacts to them.
#include <caf/mailbox_element.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/base/protocol/core/instant.h"
#include "actors/sim/core/knowledge.h"
#include "actors/sim/core/recorder.h"
#include "actors/sim/shell/workload.h"
#include "actors/sim/shell/world_actor.h"
#include "proto/base/result.h"
#include "scheduler/policy/registry.h"

namespace es::actors::simulator {

struct SimulationOptions {
  std::string policy{scheduler::kDefaultPolicy};
  scheduler::PolicyOptions policy_options;
  std::vector<scheduler::Queue> queues{};  // completed_queues()
  double share_half_life_s = 0;            // as in cluster::Limits
  double round_s = 0;                      // events within this many seconds make one decision
  double checkpoint_s = 0;  // seconds of training between two checkpoints; 0 for no series
  Knowledge knowledge;      // what the policy knows about lengths and speeds
  WorldOptions world;
  // Puts a watch around the policy. It must change no decision.
  std::function<std::unique_ptr<scheduler::Policy>(std::unique_ptr<scheduler::Policy>)>
      watch_policy{};
  // Called every few thousand events with the number of jobs that have ended, the number of all
  // jobs, and the virtual time in seconds.
  std::function<void(std::size_t, std::size_t, double)> progress;
  // Sees every message before its receiver does, with the actor id of the receiver. It must change
  // nothing.
  std::function<void(Instant, std::uint64_t, const caf::mailbox_element&)> watch{};
  // Records why jobs wait beside free devices, which costs a look at all jobs in many decisions.
  bool explains_waits = false;
};

struct SimulationResult {
  std::string policy;
  std::vector<JobResult> jobs;  // in the order of the workload
  std::vector<DeviceType> types;
  std::vector<Sample> samples;
  std::vector<JobSpan> spans;                             // as JobSpans::spans()
  std::vector<std::string> wait_reasons;                  // as JobSpans::reasons()
  std::vector<double> held_device_s, computing_device_s;  // by type
  // Of devices that compute for jobs on several nodes, and in several racks.
  double many_nodes_device_s = 0, many_racks_device_s = 0;
  std::uint64_t events = 0;  // messages that an actor received
  double wall_s = 0;
  std::uint64_t decisions = 0;
  // Processor time in seconds of all decisions, of the slowest one, and the 99th percentile. A
  // decision includes the view, the policy, the check of its rules, and the grants.
  double decision_s = 0, decision_max_s = 0, decision_p99_s = 0;
  std::uint32_t unfinished = 0;  // jobs that never ended
  std::uint32_t refused = 0;     // requests that the head refused
  std::string first_refusal;
  std::uint32_t failures = 0;    // losses of nodes
  std::uint32_t stragglers = 0;  // times that a device became slow
  std::uint64_t history_hash = 0;
};

// Error (usage): there is no such policy.
Result<SimulationResult> simulate(const Workload& workload, const SimulationOptions& options);

}  // namespace es::actors::simulator
