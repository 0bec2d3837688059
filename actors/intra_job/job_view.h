#pragma once
// JobView: what people are shown of a job. A plain value; JobInfo of client.capnp carries it.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/protocol/messages.h"
#include "proto/messages.h"

namespace es::actors {

struct StageView {
  std::string placement;
  std::uint64_t steps = 0;
  double seconds = 0;
  double rescale_seconds = 0;
};

struct EvaluationView {
  Version version = 0;
  std::uint64_t correct = 0;
  std::uint64_t total = 0;
  double mean_loss = 0;
};

struct WorkerView {
  Incarnation incarnation;
  DeviceId device;
  RankRange ranks;
  std::uint64_t pid = 0;
};

struct JobView {
  JobId id;
  std::string name;
  std::string state;
  std::string level;
  std::uint32_t max_p = 0;
  Version step = 0;
  Version last_step = 0;
  std::string placement;
  float loss_first = std::nanf("");
  float loss_last = std::nanf("");
  double samples_per_second = 0;
  double peak_rss_mib = 0;
  std::string params_digest;
  std::string state_digest;
  std::vector<StageView> stages;
  std::vector<EvaluationView> evaluations;
  std::vector<WorkerView> workers;
  std::string error;
  std::uint64_t submitted_unix_ms = 0;
  std::string checkpoint;
};

void put(wire::JobInfo::Builder b, const JobView& view);
JobView job_view_from(wire::JobInfo::Reader r);

}  // namespace es::actors
