#pragma once
// The JSON that commands print with --json: one object, indented, ending without a newline. Field
// names are snake_case with units; they are part of the command line's contract. A number that is
// not finite, and a value that does not exist, is null.
//
// Pure functions; bytes that are not UTF-8 are replaced, so they never fail.
#include <string>
#include <vector>

#include "actors/esctl/views.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// A job: identity, progress, losses, digests, stages, evaluations. `eval` is the last evaluation.
// Also what `run` prints at its end.
std::string job_json(const JobView& job);
// A job with `spec_toml`, its specification.
std::string details_json(const JobView& job, const std::string& spec_toml);
std::string jobs_json(const std::vector<JobView>& jobs);
std::string nodes_json(const std::vector<NodeView>& nodes);
std::string checkpoint_json(const std::string& job, const CheckpointView& checkpoint);
// On one line: logs are a sequence of these.
std::string log_line_json(const std::string& line);
std::string error_json(const Error& error);

// An object of text fields, for answers that only confirm.
std::string fields_json(const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace es::actors::esctl
