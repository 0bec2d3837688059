#pragma once
// Job traces: when jobs were submitted and how much work they are. The header of a file decides its
// format; docs/reference/data-formats.md lists the columns. All functions are pure except read_*.
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
  double submit_s = 0;            // seconds since the begin of the trace, >= 0
  std::string model;              // key in StepTimes; if empty, a step takes one second everywhere
  std::uint32_t max_p = 1;        // number of ESTs, and of requested devices, 1..1024
  std::uint32_t min_devices = 1;  // the fewest on which it runs, 1..max_p
  std::uint32_t batch_size = 1;   // samples of one EST's mini-batch
  double local_steps = 0;         // all work in mini-batches of one EST; 0 if StepTimes knows it
  bool mix_types = true;          // may use several device types at the same time
  std::string type;               // requested type, without mix_types the only one; "" for any
  std::string tenant;
  std::string queue;
  int priority = 0;
  double deadline_s = 0;  // seconds from its submission; 0 for none
  bool suspendable = true;
  double max_s = 0;   // the most seconds with devices; 0 for no limit
  double budget = 0;  // the most that its devices may cost; 0 for no limit
};

enum class TraceFormat { kEasyScale, kPhilly, kPollux, kGavel };
const char* format_name(TraceFormat format);

struct JobTrace {
  TraceFormat format = TraceFormat::kEasyScale;
  std::vector<TraceJob> jobs;  // by submit_s, equal times in file order; at least one
  std::size_t skipped = 0;     // rows without work or devices (Philly)
};

// `workload` selects one workload of a file with several (Pollux); empty for the first one.
Result<JobTrace> parse_trace(std::string_view text, const std::string& file,
                             const std::string& workload = {});
// The file may be compressed with gzip. Additional error: not found.
Result<JobTrace> read_trace(const std::string& file, const std::string& workload = {});

// Seconds of a local step by (model, device type), and the samples of a whole job by model.
struct StepTimes {
  using Key = std::pair<std::string, std::string>;
  std::map<Key, double> seconds;                // > 0; the fixed part if seconds_per_sample
  std::map<Key, double> seconds_per_sample;     // has an entry for the key
  std::map<std::string, double> samples_total;  // by model, where the file states it

  // Seconds of a local step, or nullopt if they are not known.
  std::optional<double> local_step_s(const std::string& model, const std::string& type,
                                     std::uint32_t batch_size) const;
  // Device types for which some model has a time, ascending: "p100, v100".
  std::string device_types_text() const;
};

// Parses `model,gpu_type,seconds_per_local_step[,seconds_per_sample][,samples_total]`, or
// throughputs of Gavel.
Result<StepTimes> parse_step_times(std::string_view text, const std::string& file);
Result<StepTimes> read_step_times(const std::string& file);

// A serving load: `time_s,type,count,name[,until_s,queue]`. From time_s on, `name` holds `count`
// devices of the type instead of what it held before; with a count of 0 or less it holds none. With
// until_s and queue it is a reservation: until then the queue is guaranteed the devices in
// addition.
struct TraceClaim {
  double time_s = 0;
  std::string type;
  std::uint32_t count = 0;
  std::string name;
  double until_s = 0;  // > time_s; 0: no reservation
  std::string queue{};
};
// Ordered by time; equal times are in file order.
Result<std::vector<TraceClaim>> parse_claims(std::string_view text, const std::string& file);
Result<std::vector<TraceClaim>> read_claims(const std::string& file);

}  // namespace es::store
