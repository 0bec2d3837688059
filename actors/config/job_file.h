#pragma once
// The TOML form of a JobSpec: what a user writes, and the canonical text that travels in messages,
// in the journal and in checkpoints.
//
// Every key is optional except what validate() demands; an unknown key or a wrong type is an error
// (a misspelt option must not be silently ignored). See configs/jobs/ for examples.
#include <filesystem>
#include <string>
#include <string_view>

#include "proto/base/job_spec.h"

namespace es::actors {

// Reads and validates. `where` names the source in errors ("job.toml").
// Error (usage): a text that toml_bounds.h refuses, syntax with line and column, unknown key, wrong
// type, or a rule of validate().
Result<JobSpec> parse_job(std::string_view toml_text, const std::string& where);

// Error: as read_text_file; otherwise as parse_job, with the file's path as `where`.
Result<JobSpec> read_job_file(const std::filesystem::path& path);

// The canonical text: all keys in fixed order, so equal specs have equal text.
// parse_job(to_toml(spec)) == spec for every valid spec.
std::string to_toml(const JobSpec& spec);

// The same with defaults in place of what does not decide the bits of the result.
std::string bits_toml(const JobSpec& spec);

}  // namespace es::actors
