#pragma once
// The JSON that commands print with --json: one indented object without a newline at the end. Field
// names are in snake_case with units; they are part of the contract of the command line.
//
// * Types: a number is a JSON number, never text. Floating-point numbers have all their digits.
//   Whole numbers may need 64 bits (steps, versions, seeds, bytes); a reader that stores numbers as
//   doubles rounds those above 2^53. Digests and hashes are hexadecimal text. A number that is not
//   finite and a value that does not exist are null.
// * Ranks: rank_begin is the first virtual rank of a worker, and rank_end is the last one plus 1,
//   so it has rank_end - rank_begin ESTs. In text output a range names its first and last rank.
// * Speed: samples_per_s is the current rate (StageClock defines the window), and null for a job
//   that makes no steps. samples_per_s_mean is the mean over all of the training time.
//
// Pure functions. Bytes that are not UTF-8 are replaced, so the functions never fail.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/views/views.h"
#include "proto/base/result.h"

namespace es::actors {

// A job: identity, progress, losses, digests, stages and evaluations. `eval` is the last
// evaluation.
std::string job_json(const JobView& job);
// The output at the end of `run`: a job with `weights`, which is an object {"path", "step"}, or
// null if the weights are not kept.
std::string run_json(const JobView& job, const std::optional<KeptWeights>& weights);
// A job with its specification in `spec_toml`.
std::string details_json(const JobView& job, const std::string& spec_toml);
// Of the evaluations of a listed job there is the last one, `eval`. `warning` describes a fault of
// the head that is still running; it may be empty.
std::string jobs_json(const std::vector<JobView>& jobs, const std::string& warning = {});
std::string removed_json(const std::vector<std::string>& jobs);
std::string nodes_json(const std::vector<NodeView>& nodes, const std::string& warning = {});
std::string checkpoint_json(const std::string& job, const CheckpointView& checkpoint);
// An evaluation, as in the list `evaluations` of a job.
std::string evaluation_json(const EvaluationView& evaluation);
// One object on one line: the time in `ts`, which is null for a line of an earlier release, the
// level, and the message in `line`. A log is a sequence of such lines.
std::string log_line_json(const std::string& line);
std::string error_json(const Error& error);

// An object of texts and whole numbers, for answers that only confirm a request.
using AnswerValue = std::variant<std::string, std::uint64_t>;
std::string fields_json(const std::vector<std::pair<std::string, AnswerValue>>& fields);

}  // namespace es::actors
