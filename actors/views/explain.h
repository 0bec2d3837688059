#pragma once
// Why a job waits, or why it is not faster. Pure functions over what a head says; `esctl explain`
// collects it and prints the result.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/views/claims_view.h"
#include "actors/views/plans_view.h"
#include "actors/views/queues_view.h"
#include "actors/views/views.h"
#include "proto/base/job_spec.h"

namespace es::actors {

struct ClusterFacts {
  JobView job;
  JobSpec spec;                 // of this job
  std::vector<JobView> jobs{};  // all jobs, in the order of submission
  std::vector<NodeView> nodes{};
  std::vector<ClaimView> claims{};
  std::vector<QueueView> queues{};
  std::optional<PlansView> plans{};  // of this job; none if it is over or does not answer
  std::uint64_t now_unix_ms = 0;
};

// One cause, as whole sentences.
struct Reason {
  // A word for programs. A wait: over, paused, saved-state, stage, pinned, missing, held, claimed,
  // suspect, set-aside, node-away, draining, free, price, queue, tree, tenant, starting. Speed:
  // stragglers, imbalance, data, exchange, threads, more-devices, audits, pauses, waits. Both:
  // warning.
  std::string kind;
  std::string text;
  std::string advice{};  // what could be done; empty if nothing
};

struct Explanation {
  std::string summary;            // one sentence about what the job does now
  std::vector<Reason> reasons{};  // the most important first
};

Explanation explain(const ClusterFacts& facts);

// The reasons why the job has no devices, or not those that it needs. Empty: it has them.
std::vector<Reason> reasons_of_wait(const ClusterFacts& facts);
// The reasons why a job that trains is not faster, with the share of the time that each one costs
// where the head knows it.
std::vector<Reason> reasons_of_speed(const ClusterFacts& facts);

std::string explanation_text(const Explanation& explanation);
// {"job": ID, "state": STATE, "summary": TEXT, "reasons": [{"kind": WORD, "text": TEXT, "advice":
// TEXT or null}, ...]}
std::string explanation_json(const JobView& job, const Explanation& explanation);

}  // namespace es::actors
