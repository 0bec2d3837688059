#pragma once
// Job traces: which jobs were submitted when, and how much work they are. The format is recognised
// by the header; README.md lists the columns of each. Pure but for read_*.
//
// Errors (usage) name the file, the line, the field, its value and what is allowed.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

struct TraceJob {
  std::string id;
  double submit_s = 0;           // from the begin of the trace, >= 0
  std::string model;             // key into StepTimes; empty: a step takes one second everywhere
  std::uint32_t max_p = 1;       // ESTs = the devices that it asks for, 1..1024
  std::uint32_t batch_size = 1;  // samples of an EST's mini-batch
  double local_steps = 0;        // all its work, in mini-batches of one EST; 0: StepTimes knows
  bool mix_types = true;         // may use several device types at a time
  std::string type;  // the one that it asked for (its only one without mix_types); "": any
  std::string tenant;
  int priority = 0;
  double deadline_s = 0;  // from its submission on; 0: none
};

enum class TraceFormat { kEasyScale, kPhilly, kPollux, kGavel };
const char* format_name(TraceFormat format);

struct JobTrace {
  TraceFormat format = TraceFormat::kEasyScale;
  std::vector<TraceJob> jobs;  // by submit_s, ties in file order; at least one
  std::size_t skipped = 0;     // rows without work or devices (Philly)
};

// `workload`: which one of a file that holds several (Pollux); empty: the first.
Result<JobTrace> parse_trace(std::string_view text, const std::string& file,
                             const std::string& workload = {});
// The file may be compressed by gzip. Error: not found, also.
Result<JobTrace> read_trace(const std::string& file, const std::string& workload = {});

// Seconds of a local step by (model, device type), and the samples of a whole job by model.
struct StepTimes {
  using Key = std::pair<std::string, std::string>;
  std::map<Key, double> seconds;                // > 0; of a step of no samples where
  std::map<Key, double> seconds_per_sample;     // there is an entry here
  std::map<std::string, double> samples_total;  // by model, where stated

  // None: not known.
  std::optional<double> local_step_s(const std::string& model, const std::string& type,
                                     std::uint32_t batch_size) const;
  // Those that some model has a time on, ascending: "p100, v100".
  std::string device_types_text() const;
};

// Either `model,gpu_type,seconds_per_local_step[,seconds_per_sample][,samples_total]`, or Gavel's
// throughputs.
Result<StepTimes> parse_step_times(std::string_view text, const std::string& file);
Result<StepTimes> read_step_times(const std::string& file);

// A serving load: `time_s,type,count,name`. From time_s on, `name` has so many devices of the type
// in place of what it had; 0 or less: none.
struct TraceClaim {
  double time_s = 0;
  std::string type;
  std::uint32_t count = 0;
  std::string name;
};
// By time, ties in file order.
Result<std::vector<TraceClaim>> parse_claims(std::string_view text, const std::string& file);
Result<std::vector<TraceClaim>> read_claims(const std::string& file);

}  // namespace es::store
