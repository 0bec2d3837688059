#pragma once
// Admission turns a submitted text into a job that can be journaled and started, or into one clear
// error. It checks everything that can be known before a device is held, so that a mistake costs a
// second and not an allocation. Pure except for reading the data set and the checkpoint.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/head/intra_job/core/job_core.h"
#include "gpu/engine/engine.h"
#include "proto/base/job_spec.h"
#include "scheduler/plans/worker_memory.h"

namespace es::actors {

struct AdmittedJob {
  intra_job::Config config;  // its spec has steps from epochs or stages, and a level from auto
  std::string spec_toml;     // canonical text of config.spec
  std::vector<std::uint64_t> bucket_floats;
  // What workers need; `divided` as shard.state says. Whether it may become divided.
  scheduler::WorkerMemory memory;
  bool may_divide = false;
  std::string model_key;  // what decides the speed of a local step, besides batch and device type

  // Sets config.spec and what follows from it.
  void set_spec(JobSpec spec);
};

// What the workers of a job need, by the plans of an engine on a CPU and of one on a GPU. `divided`
// is false.
scheduler::WorkerMemory worker_memory(const JobSpec& spec, const gpu::MemoryUse& on_cpu,
                                      const gpu::MemoryUse& on_gpu);

// `from_checkpoint`: the directory from which to start, or empty. The data set and the checkpoint
// must be readable on the head. Errors: those of parse_job and data_facts; a model that does not
// fit the samples; steps that do not agree with the stages; a checkpoint that is damaged, of
// another job, or beyond the last step; a path outside the roots of the calling thread
// (store/path_roots.h).
Result<AdmittedJob> admit(const std::string& spec_toml, const std::string& from_checkpoint);

}  // namespace es::actors
