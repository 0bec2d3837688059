#pragma once
// The request of `run` and `submit`: the specification in a job file, changed by the command line,
// and the checkpoint to start from. Every error that can be found here is reported here, before any
// process is started.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "store/dataset/tokens/token_set.h"

namespace es::actors::esctl {

// Changes of the job file by the command line; a field without a value leaves the file as it is.
struct SpecChanges {
  std::optional<std::uint64_t> steps;
  std::optional<std::string> level;
  std::optional<std::string> stages;   // excludes `devices`
  std::optional<std::string> devices;  // one placement for all steps
};

// The state from which a job begins.
struct StartPoint {
  std::string checkpoint;          // absolute path; empty to begin from the seed
  std::optional<Version> version;  // of the checkpoint; no value if it cannot be read here
  // the level at which it was computed; no value if it is not known here
  std::optional<DeterminismLevel> level = {};
};

// Opens a checkpoint and verifies all its blocks. An empty `from` means the seed. Errors: usage (it
// is damaged; the message names file and block), not found. With `may_be_remote`, a checkpoint that
// does not exist on this machine is no error, because a node may have it.
Result<StartPoint> open_start_point(const std::string& from, bool may_be_remote);

// Reads the job file and applies the changes. Paths become absolute; a relative path begins at the
// directory of the job file. If stages or steps are on the command line, the job ends after the
// steps of `start` and the sum of its stages. Errors: those of read_job_file; usage, naming the
// option. `progress` is called while the texts of the job are encoded (encoded_texts.h).
Result<JobSpec> make_spec(
    const std::filesystem::path& file, const SpecChanges& changes, const StartPoint& start,
    const store::TokenSetProgress& progress = [](std::uint64_t, std::uint64_t) { return true; });

// Reads the job file. Its paths become absolute. Errors: those of read_job_file.
Result<JobSpec> read_with_absolute_paths(const std::filesystem::path& file);

// Returns the global steps of the job. Opens the data set if the spec gives them in epochs.
Result<std::uint64_t> total_steps(const JobSpec& spec);

// Checks whether a daemon on this machine has the devices that the spec names. Errors: usage
// (unknown type), refused (the processor cannot execute it, or there are more than `offered`).
Status check_devices(const JobSpec& spec, const DeviceSet& offered);

}  // namespace es::actors::esctl
