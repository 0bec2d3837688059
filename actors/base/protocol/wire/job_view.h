#pragma once
// The description of a job for users, as a plain value. The head fills it in, esctl prints it, and
// JobInfo of client.capnp carries it.
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/protocol/core/step_times.h"
#include "proto/messages.h"

namespace es::actors {

// The meaning of the fields is defined in proto/schema/client.capnp.
struct StageView {
  std::string placement;
  std::uint64_t steps = 0;
  double seconds = 0;
  double rescale_seconds = 0;
};

struct MetricView {
  std::string name;
  double value = 0;
  bool operator==(const MetricView&) const = default;
};

struct EvaluationView {
  std::uint64_t version = 0;
  std::uint64_t total = 0;
  std::vector<MetricView> metrics;  // the first is the headline
  bool operator==(const EvaluationView&) const = default;
};

struct WorkerView {
  std::uint64_t incarnation = 0;
  std::string node;
  std::string device_type;
  std::uint32_t device_index = 0;
  std::uint32_t rank_begin = 0;
  std::uint32_t rank_end = 0;
  std::uint64_t pid = 0;
  double local_step_seconds = 0;
  double samples_per_second = 0;
  double slowness = 1;
  std::vector<double> est_seconds;
  double peak_rss_mib = 0;
  std::uint64_t sent_bytes = 0;
};

struct PauseView {
  std::string cause;
  std::uint64_t count = 0;
  double seconds = 0;
  bool operator==(const PauseView&) const = default;
};

struct SpanView {
  double begin_seconds = 0;
  double seconds = 0;
  double pause_seconds = 0;
  std::string cause;
  std::uint64_t first_step = 0;
  std::uint64_t steps = 0;
  std::vector<std::string> devices;
};

// What a job did since its head has it.
struct TimelineView {
  std::vector<SpanView> spans;
  std::vector<std::pair<double, std::uint64_t>> progress;  // seconds, steps; ascending
};

// What evaluations have decided up to now (actors/base/protocol/core/decisions.h). A version is 0
// if there is none.
struct DecisionsView {
  std::string best_metric;  // empty: the job keeps no best checkpoint
  std::uint64_t best_version = 0;
  double best_value = 0;
  std::string best_checkpoint;   // of that version, or of the best one before it; empty: none yet
  std::uint64_t reductions = 0;  // how often the learning rate was lowered
  std::uint64_t reduced_at = 0;  // by which version last
  std::uint64_t stopped_at = 0;  // the version that ended the job early
  bool any() const { return best_version != 0 || reductions != 0 || stopped_at != 0; }
};

struct JobView {
  std::string id;
  std::string name;
  // queued | starting | running | rescaling | paused | finished | failed | cancelled
  std::string state;
  std::string level;
  std::uint32_t max_p = 0;
  std::uint64_t step = 0;
  std::uint64_t last_step = 0;
  std::string placement;             // empty while no devices are in use
  float loss_first = std::nanf("");  // NaN before the first step, like loss_last
  float loss_last = std::nanf("");
  double samples_per_second_mean = 0;  // over all training time; 0: none yet
  double samples_per_second_now = 0;   // 0: the job does not step
  double peak_rss_mib = 0;
  // Shares (0 to 1) of the workers' time for local steps: switching from one EST to the next, and
  // waiting for data.
  double context_switch_share = 0;
  double data_wait_share = 0;
  std::string params_digest;
  std::string state_digest;
  std::vector<StageView> stages;
  std::vector<EvaluationView> evaluations;  // ascending by version
  std::vector<WorkerView> workers;
  std::string error;  // why the job failed
  std::uint64_t submitted_unix_ms = 0;
  std::string checkpoint;            // path of the newest one, or empty
  std::string waiting_for;           // devices or processes; empty: nothing
  std::string warning;               // a problem that does not stop the job
  std::string tenant;                // tenant to which it belongs; empty: none
  std::uint32_t devices_wanted = 0;  // the most devices that it could use now
  StepTimes step_times;
  std::vector<PauseView> pauses;
  // Bulk data that its workers have sent to each other.
  std::uint64_t message_bytes = 0, shared_memory_bytes = 0, channel_bytes = 0;
  std::uint64_t checkpoints_written = 0, checkpoints_failed = 0;
  double checkpoint_seconds = 0;
  std::uint64_t repeated_steps = 0, start_retries = 0;
  // What its devices have cost, and cost in an hour, in the unit of the prices of the head.
  double spent = 0, price_per_hour = 0;
  double budget = 0;                // the most that it may spend; 0: no limit
  std::uint64_t ended_unix_ms = 0;  // 0: it is not over, or not known
  std::string submitter;            // name of a key or token; empty: not known
  DecisionsView decisions;
};

// The pauses after which the job continued although a worker, a link or a device had failed.
std::uint64_t recoveries_of(const JobView& job);

void put(wire::JobInfo::Builder b, const JobView& view);
// Throws kj::Exception on malformed content: call it inside Msg::decode.
JobView read_job(wire::JobInfo::Reader reader);

void put(wire::SpanInfo::Builder b, const SpanView& view);
TimelineView read_timeline(wire::JobDetails::Reader reader);

}  // namespace es::actors
