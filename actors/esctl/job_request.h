#pragma once
// What `run` and `submit` ask for: the specification in a job file, changed by the command line,
// and the checkpoint to start from. Everything wrong that can be seen here is refused here, before
// anything is started.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// Changes of a job file by the command line; absent = as in the file.
struct SpecChanges {
  std::optional<std::uint64_t> steps;
  std::optional<std::string> level;
  std::optional<std::string> stages;   // not with devices
  std::optional<std::string> devices;  // one placement for all steps
};

// Where a job begins.
struct StartPoint {
  std::string checkpoint;          // absolute path, or empty: begin from the seed
  std::optional<Version> version;  // of the checkpoint; absent when it cannot be read here
  std::optional<DeterminismLevel> level = {};  // at which it was computed; absent: not known here
};

// Opens a checkpoint and verifies all of its blocks; `from` empty = begin from the seed.
// Errors: usage (damaged, naming file and block), not found. With `may_be_remote`, a checkpoint
// that does not exist on this machine is left to the nodes to find.
Result<StartPoint> open_start_point(const std::string& from, bool may_be_remote);

// Reads the job file and applies the changes. Its paths become absolute: a relative one begins at
// the job file's directory. The job's steps are the sum of its stages (after those of `start`),
// when stages or steps are on the command line. Errors: of read_job_file; usage, naming the option.
Result<JobSpec> make_spec(const std::filesystem::path& file, const SpecChanges& changes,
                          const StartPoint& start);

// Global steps of the job. Opens the dataset when they are given by epochs.
Result<std::uint64_t> total_steps(const JobSpec& spec);

// Whether a daemon on this machine has the devices that the spec names. Errors: usage (no such
// type), refused (the processor cannot execute it, or more than `offered`).
Status check_devices(const JobSpec& spec, const DeviceSet& offered);

}  // namespace es::actors::esctl
