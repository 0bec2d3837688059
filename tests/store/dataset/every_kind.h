#pragma once
// A small, valid data set of each kind that is read from files.
#include <filesystem>
#include <vector>

#include "proto/base/job_spec.h"
#include "store/dataset/captured_inputs.h"

namespace es::test {

// Writes one set of each kind to ROOT/KIND and returns the jobs that train on them, in the order in
// which sample_source.cc lists the kinds. The training and the evaluation half of each set differ
// in size. Together the sets contain every form of file that a reader accepts (gzip, grey and
// progressive JPEG, ...).
std::vector<JobSpec> write_every_kind(const std::filesystem::path& root);

// What the model file of one of these jobs asks of the samples; nullptr for a built-in model.
const store::CapturedInputs* inputs_of(const JobSpec& spec);

// All files below a directory, ordered by name.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& directory);

}  // namespace es::test
