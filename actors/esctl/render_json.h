#pragma once
// The JSON that commands print with --json: one object, indented, ending without a newline. Field
// names are snake_case with units; they are part of the command line's contract.
//
// Types     A number is a JSON number, never text; floating-point numbers have all their digits.
//           Whole numbers may need 64 bits (steps, versions, seeds, bytes): a reader that keeps
//           numbers as doubles rounds those above 2^53. Digests and hashes are hexadecimal text.
//           A number that is not finite, and a value that does not exist, is null.
// Ranks     rank_begin is the first virtual rank of a worker, rank_end the one after its last:
//           rank_end - rank_begin ESTs. In text for people a range names its first and last rank.
// Speed     samples_per_s is the rate of now (StageClock says over which window), null for a job
//           that does not step; samples_per_s_mean is that over all of its time of training.
//
// Pure functions; bytes that are not UTF-8 are replaced, so they never fail.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/esctl/views.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// A job: identity, progress, losses, digests, stages, evaluations. `eval` is the last evaluation.
std::string job_json(const JobView& job);
// What `run` prints at its end: a job with `weights`, an object {"path", "step"}, or null when they
// are kept nowhere.
std::string run_json(const JobView& job, const std::optional<KeptWeights>& weights);
// A job with `spec_toml`, its specification.
std::string details_json(const JobView& job, const std::string& spec_toml);
// `warning`: what is wrong with the head though it runs; may be empty.
std::string jobs_json(const std::vector<JobView>& jobs, const std::string& warning = {});
std::string nodes_json(const std::vector<NodeView>& nodes, const std::string& warning = {});
std::string checkpoint_json(const std::string& job, const CheckpointView& checkpoint);
// On one line: logs are a sequence of these.
std::string log_line_json(const std::string& line);
std::string error_json(const Error& error);

// An object of texts and whole numbers, for answers that only confirm.
using FieldValue = std::variant<std::string, std::uint64_t>;
std::string fields_json(const std::vector<std::pair<std::string, FieldValue>>& fields);

}  // namespace es::actors::esctl
