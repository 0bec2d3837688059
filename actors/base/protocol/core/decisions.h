#pragma once
// What the evaluations of a job decide: when its learning rate falls (ScheduleSpec::metric), when
// it stops early (StopSpec), and which version is the best one (CheckpointSpec::keep_best).
//
// A decision is a pure function of the evaluations of a run, in the order of their versions, so it
// is the same on every placement and after a restart of the head. The head makes it from the
// evaluations that it has stored. The evaluation of version v acts on the update from v to v + 1:
// no member begins that update before the head has sent Decided for it (docs/PROTOCOL.md).
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::protocol {

// The best value of a metric up to now, and how many evaluations in a row were not better.
struct Trend {
  std::optional<double> best;
  std::uint32_t bad = 0;
  bool operator==(const Trend&) const = default;
};

// The state of the decisions that changes what is computed next. A checkpoint of version v contains
// that of the evaluations before v: a job that continues from v evaluates it again, if it is due.
struct Decisions {
  Trend plateau;
  std::uint32_t cooldown = 0;    // evaluations that are still to be left out
  std::uint32_t reductions = 0;  // how often the learning rate was lowered
  Trend stop;
  bool operator==(const Decisions&) const = default;
};

// Its text, in messages and checkpoints. Values of metrics are written bit by bit.
std::string encode(const Decisions& decisions);
// Error (usage): the text was not written by encode().
Result<Decisions> decode_decisions(const std::string& text);

// Whether a smaller value of this metric is better.
bool falls(const std::string& metric);

// The decisions after one more evaluation. `value` returns its value of a metric; NaN is never
// better. In fp64, as torch.optim.lr_scheduler.ReduceLROnPlateau.
using MetricValue = std::function<double(const std::string& metric)>;
Decisions decide(const JobSpec& spec, Decisions before, const MetricValue& value);
// Whether the job ends with the evaluated version.
bool stops(const JobSpec& spec, const Decisions& decisions);
// Whether a value of checkpoint.keep_best is better than the best one before it.
bool is_best(const JobSpec& spec, double value, const std::optional<double>& best);

// Whether the update of this step waits for a decision: its version is evaluated. `eval_every` is 0
// for a job that decides nothing.
inline bool is_decided(Version step, Version eval_every) {
  return eval_every != 0 && step != 0 && step % eval_every == 0;
}
// JobSpec::eval_every of a job that decides; 0 for another one.
inline Version decided_every(const JobSpec& spec) {
  return decides(spec) ? spec.eval_every : 0;
}
// Whether the job may end with this version. Its ledger line then has a digest of the whole state.
inline bool may_be_last(const JobSpec& spec, Version version, Version last_version) {
  return version == last_version ||
         (!spec.stop.metric.empty() && is_decided(version, spec.eval_every));
}

// How often the evaluations have lowered the learning rate. REQUIRES: the text was read when it
// arrived; empty: the job decides nothing.
inline std::uint32_t reductions(const std::string& decisions) {
  return decisions.empty() ? 0 : decode_decisions(decisions)->reductions;
}

}  // namespace es::actors::protocol
