#pragma once
// The TOML form of a JobSpec: the text that a user writes, and the canonical text that travels in
// messages, in the journal and in checkpoints.
//
// Every key is optional except those that validate() demands. An unknown key or a wrong type is an
// error, because a misspelt option must not be ignored silently. Examples are in configs/jobs.
#include <filesystem>
#include <string>
#include <string_view>

#include "proto/base/job_spec.h"

namespace es::actors {

// Reads and validates a text. `where` names the source in errors (for example, "job.toml"). Error
// (usage): a text that toml_bounds.h refuses, a syntax error with line and column, an unknown key,
// a wrong type, or a violated rule of validate().
Result<JobSpec> parse_job(std::string_view toml_text, const std::string& where);

// Errors: those of read_text_file, and those of parse_job with the file's path as `where`.
Result<JobSpec> read_job_file(const std::filesystem::path& path);

// Returns the canonical text. It has all keys in a fixed order, so equal specs have equal texts.
// parse_job(to_toml(spec)) == spec for every valid spec.
std::string to_toml(const JobSpec& spec);

// The same text, but fields that do not decide the bits of the result have their default values.
std::string bits_toml(const JobSpec& spec);

}  // namespace es::actors
