#pragma once
// A small, valid data set of each kind that is read from files.
#include <filesystem>
#include <vector>

#include "proto/base/job_spec.h"

namespace es::test {

// Writes one set per kind to ROOT/KIND and returns the jobs that train on them, in the order in
// which sample_source.cc lists the kinds. The sets are different in both halves' sizes, and between
// them they have every form of file that a reader knows (gzip, grey and progressive JPEG, ...).
std::vector<JobSpec> write_every_kind(const std::filesystem::path& root);

// All files below a directory, in the order of their names.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& directory);

}  // namespace es::test
