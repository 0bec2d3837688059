#pragma once
// Admission: turns a submitted text into a job that can be journaled and started, or into one clear
// error. Everything that can be known before a device is held is checked here, so that a mistake
// costs a second and not an allocation. Pure but for reading the dataset and the checkpoint.
#include <cstdint>
#include <filesystem>
#include <string>

#include "actors/intra_job/intra_job_core.h"
#include "proto/base/job_spec.h"

namespace es::actors {

struct AdmittedJob {
  JobSpec spec;           // steps resolved from epochs or stages, level from auto
  std::string spec_toml;  // its canonical text
  intra_job::Config config;
  std::string model_key;  // what decides the speed of a local step, besides batch and device type
};

// `from_checkpoint`: directory to start from, or empty. The dataset (and the checkpoint) must be
// readable on the head. Errors: as parse_job; as data_facts; a model that does not fit the samples;
// steps that do not agree with stages; a checkpoint that is damaged, of another job or beyond the
// last step; a path outside the roots that hold for the calling thread (store/path_roots.h).
Result<AdmittedJob> admit(const std::string& spec_toml, const std::string& from_checkpoint);

// Size of a gradient bucket; both the head and the workers cut by it.
inline constexpr std::int64_t kBucketBytes = std::int64_t{4} << 20;

}  // namespace es::actors
