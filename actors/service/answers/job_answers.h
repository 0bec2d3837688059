#pragma once
// The JSON of the HTTP service that esctl does not have. Pure functions.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/service/core/curve.h"
#include "actors/service/core/device_history.h"
#include "actors/service/core/tokens.h"
#include "actors/service/core/utilisation.h"
#include "actors/views/views.h"

namespace es::actors::http {

// {"jobs": [...], "total": COUNT, "warning": TEXT or null}: the jobs of one page; `total` is the
// number of all that match. A job has its state and progress here, and no lists.
std::string job_list_json(const std::vector<JobView>& jobs, std::uint64_t total,
                          const std::string& warning);

// One event of a stream: the JSON of a job on one line, as job_json has it.
std::string job_line_json(const JobView& job);

// {"steps_per_point": COUNT, "points": [[VERSION, LEAST, MEAN, LARGEST], ...]}; null: not finite.
std::string curve_json(const Curve& curve);

// {"spans": [{"begin_seconds", "seconds", "pause_seconds", "cause", "first_step", "steps",
// "devices"}], "progress": [[SECONDS, STEPS], ...], "pauses": [{"cause", "count", "seconds"}],
// "recoveries", "repeated_steps", "start_retries", "checkpoints": {"written", "failed", "seconds"},
// "exchanged_bytes": {"message", "shared_memory", "gpu_channel"}}: what has happened to a job since
// its head has it. `cause` is null for the first span.
std::string timeline_json(const JobView& job, const TimelineView& timeline);

// One version of a ledger.
struct LedgerEntry {
  std::uint64_t version = 0;
  std::vector<float> losses;  // by virtual rank
  std::string params, state;  // digests; `state` is empty before the last version
};
// {"job", "spec_toml", "from", "lines": [{"version", "losses", "params", "state"}], "next"}.
std::string ledger_part_json(const std::string& job, const std::string& spec_toml,
                             const std::string& from, const std::vector<LedgerEntry>& lines,
                             std::uint64_t next);

// {"utilisation": [[UNIX_MS, BUSY, DEVICES], ...], "stragglers": [{"job", "node", "device",
// "slowness"}]}: devices in use over time, and the devices of these jobs that are slow.
std::string cluster_json(const std::vector<UtilisationPoint>& utilisation,
                         const std::vector<JobView>& jobs);

// {"node", "devices": [{"device", "points": [[UNIX_MS, HELD, COMPUTING, MIB, BYTES_PS], ...]}]}:
// what the devices of a node did over time. A value that is not known is null. A reader with a
// tenant sees of it only when a device was held (`all` is false).
std::string node_history_json(const std::string& node,
                              const std::map<std::string, std::vector<DevicePoint>>& devices,
                              bool all);

// The share of the time in which the device of this worker computes local steps, 0 to 1: the
// samples that it has to compute in a second beside those that it could. nullopt: not known.
std::optional<double> computing_share(const JobView& job, const WorkerView& worker);

std::string identity_json(const Identity& identity);

}  // namespace es::actors::http
