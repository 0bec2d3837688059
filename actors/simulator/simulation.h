#pragma once
// Simulation: a trace on a cluster under a policy, by the actors that run a real cluster.
//
// Real       ClusterScheduler with the policy, one IntraJobScheduler and one Companion for each job
//            with the whole round protocol, and the head's store (in memory)
// Simulated  everything else: world_actor.h says how
//
// All in virtual time on the calling thread. The same options give the same history, message by
// message, whatever the machine: history_hash covers every frame between the head and the world in
// full, and of messages inside the head their time, sender, receiver and size.
//
// Speeds are known from the begin, as of models that have run before: the step times are put into
// the companion's history. Where devices become slow or steps cost more than the model says
// (WorldOptions::is_measured), workers report what they measure, and the head finds out.
#include <caf/mailbox_element.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/protocol/instant.h"
#include "actors/simulator/recorder.h"
#include "actors/simulator/workload.h"
#include "actors/simulator/world_actor.h"
#include "proto/base/result.h"
#include "scheduler/policy/registry.h"

namespace es::actors::simulator {

struct SimulationOptions {
  std::string policy{scheduler::kDefaultPolicy};
  scheduler::PolicyOptions policy_options;
  std::vector<scheduler::Quota> quotas;
  double round_s = 0;       // events within so many seconds make one decision
  double checkpoint_s = 0;  // of training between two checkpoints of a job; 0: none of its own
  WorldOptions world;
  // Told every few thousand events: jobs that have ended, all jobs, virtual seconds.
  std::function<void(std::size_t, std::size_t, double)> progress;
  // Sees every message before its receiver, with the receiver's actor id. Changes nothing.
  std::function<void(Instant, std::uint64_t, const caf::mailbox_element&)> watch{};
};

struct SimulationResult {
  std::string policy;
  std::vector<JobResult> jobs;  // as the workload's
  std::vector<DeviceType> types;
  std::vector<Sample> samples;
  std::vector<double> held_device_s, computing_device_s;  // by type
  std::uint64_t events = 0;                               // messages that an actor received
  double wall_s = 0;
  std::uint64_t decisions = 0;
  // Processor time of all, of the slowest, and of 99 in 100: view, policy, its rules, what it
  // grants.
  double decision_s = 0, decision_max_s = 0, decision_p99_s = 0;
  std::uint32_t unfinished = 0;  // jobs that never ended
  std::uint32_t refused = 0;     // requests that the head refused
  std::string first_refusal;
  std::uint32_t failures = 0;    // of nodes
  std::uint32_t stragglers = 0;  // times that a device became slow
  std::uint64_t history_hash = 0;
};

// Error (usage): no such policy.
Result<SimulationResult> simulate(const Workload& workload, const SimulationOptions& options);

}  // namespace es::actors::simulator
