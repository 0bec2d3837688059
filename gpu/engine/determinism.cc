#include "gpu/engine/determinism.h"

#include <algorithm>

#include "gpu/base/vendor_kernels.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

JobSpec one_est_at(const JobSpec& spec, DeterminismLevel level) {
  JobSpec one = spec;
  one.level = level;
  // A local step does not depend on max_p, and one EST needs the least memory.
  one.max_p = 1;
  return one;
}

// An engine at version 0, with the memory that its local steps write.
class StepTimer {
 public:
  static Result<StepTimer> create(const JobSpec& spec, const Graph& model,
                                  const EngineOptions& options) {
    auto engine = Engine::create(spec, model, options);
    if (!engine) return engine.error();
    ES_RETURN_IF_ERROR((*engine)->init_replica());
    return StepTimer(*std::move(engine));
  }

  // Returns the median of the durations of `rounds` steps.
  Result<StepTime> median(const Batch& batch, const std::function<StepTime()>& now, int rounds) {
    ES_CHECK(rounds > 0);
    std::vector<StepTime> times;
    // Step 0 warms up caches and lazily created state, so its time is not counted.
    for (int i = 0; i <= rounds; ++i) {
      const StepTime begin = now();
      const auto loss = engine_->local_step(0, batch, {}, gradient_.data(), next_, [](auto) {});
      if (!loss) return loss.error();
      if (i > 0) times.push_back(now() - begin);
    }
    // The median does not change if other work of the machine delays a few of the steps.
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

  std::vector<std::string> vendor_ops() const { return engine_->vendor_ops(); }
  std::vector<std::string> vendor_refusals() const { return engine_->vendor_refusals(); }

 private:
  explicit StepTimer(std::unique_ptr<Engine> engine)
      : engine_(std::move(engine)), gradient_(engine_->table().trained_floats()) {}

  std::unique_ptr<Engine> engine_;
  AlignedBuffer gradient_;
  EstContext next_;
};

}  // namespace

Result<D2Verdict> measure_d2(const JobSpec& spec, const Graph& model, const EngineOptions& options,
                             const Batch& batch, const std::function<StepTime()>& now, int rounds) {
  D2Verdict verdict;
  for (const auto level : {DeterminismLevel::kD1, DeterminismLevel::kD2}) {
    EngineOptions at_level = options;
    at_level.vendor = allows_vendor(level);
    auto timer = StepTimer::create(one_est_at(spec, level), model, at_level);
    if (!timer) return timer.error();
    if (level == DeterminismLevel::kD1) {
      verdict.vendor_ops = timer->vendor_ops();
      verdict.vendor_refusals = timer->vendor_refusals();
    }
    // The level D1 comes first. If no vendor kernel runs there, both levels execute the same
    // kernels, so nothing has to be timed.
    if (verdict.vendor_ops.empty()) return verdict;
    const Result<StepTime> time = timer->median(batch, now, rounds);
    if (!time) return time.error();
    (level == DeterminismLevel::kD1 ? verdict.d1_time : verdict.d2_time) = *time;
  }
  return verdict;
}

DeterminismLevel resolve_level(const JobSpec& spec, const D2Verdict& verdict) {
  if (spec.level != DeterminismLevel::kAuto) return spec.level;
  return verdict.cost() <= spec.auto_cost ? DeterminismLevel::kD2 : DeterminismLevel::kD1;
}

}  // namespace es::gpu
