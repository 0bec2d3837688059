#include "gpu/engine/determinism.h"

#include <doctest/doctest.h>

#include <deque>

#include "gpu/models/models.h"
#include "tests/gpu/support/onednn_class.h"
#include "tests/gpu/support/training.h"

namespace es::gpu {
namespace {

SampleLayout images() {
  return {{{.name = "image", .height = 8, .width = 8, .channels = 1},
           {.name = "label", .type = FieldType::kI32, .high = 9}}};
}

JobSpec job(const char* model) {
  JobSpec spec;
  spec.batch_size = 2;
  spec.level = DeterminismLevel::kAuto;
  spec.model = {.name = model, .width = 4, .classes = 10};
  return spec;
}

// A clock that shows these times, one for each reading.
class ScriptedClock {
 public:
  explicit ScriptedClock(std::deque<double> instants) : instants_(std::move(instants)) {}
  StepTime look() {
    REQUIRE_FALSE(instants_.empty());
    const StepTime now(instants_.front());
    instants_.pop_front();
    return now;
  }
  bool is_over() const { return instants_.empty(); }

 private:
  std::deque<double> instants_;
};

Result<D2Verdict> measure(const JobSpec& spec, const Batch& batch, ScriptedClock& clock) {
  const auto model = build_model(spec.model, spec.batch_size, images());
  if (!model) return model.error();
  return measure_d2(
      spec, *model, {.cpu_class = test::onednn_class()}, batch, [&] { return clock.look(); }, 3);
}

}  // namespace

TEST_SUITE("gpu/determinism") {
  TEST_CASE("a model without vendor kernels costs nothing at D2, and nothing is measured") {
    if (!cpu_supports(test::onednn_class())) return;
    const JobSpec spec = job("mlp");
    test::BatchSource batches(spec, images());
    ScriptedClock clock({});
    const auto verdict = measure(spec, batches.make(0, 0), clock);
    REQUIRE(verdict.ok());
    CHECK(verdict->vendor_ops.empty());
    CHECK(verdict->cost() == 0.0);
    CHECK(resolve_level(spec, *verdict) == DeterminismLevel::kD2);
  }

  TEST_CASE("the cost is the ratio of the medians, each after a step to warm up") {
    if (test::onednn_or_skip() == nullptr) return;
    const JobSpec spec = job("small_cnn");
    test::BatchSource batches(spec, images());
    // Each line: the begin of the first step, then begin and end of three steps. D1: 2, 90, 1
    // seconds.
    ScriptedClock clock({0, 10, 12, 20, 110, 200, 201,  //
                         300, 310, 313, 320, 322.5, 330, 330.5});
    const auto verdict = measure(spec, batches.make(0, 0), clock);
    REQUIRE(verdict.ok());
    CHECK(clock.is_over());
    CHECK_FALSE(verdict->vendor_ops.empty());
    CHECK(verdict->d1_time == StepTime(2.0));
    CHECK(verdict->d2_time == StepTime(2.5));
    CHECK(verdict->cost() == 0.25);
  }

  TEST_CASE("a batch that the model refuses is an error of the measurement") {
    if (test::onednn_or_skip() == nullptr) return;
    std::vector<float> words(2 * 65, std::numeric_limits<float>::infinity());
    ScriptedClock clock({0});
    const auto verdict = measure(job("small_cnn"), {words.data()}, clock);
    REQUIRE_FALSE(verdict.ok());
    CHECK(verdict.error().message.find("field image") != std::string::npos);
  }

  TEST_CASE("level auto is D2 up to the accepted cost, and D1 above it") {
    JobSpec spec = job("mlp");
    const D2Verdict verdict{
        .vendor_ops = {"op"}, .d1_time = StepTime(2.0), .d2_time = StepTime(2.25)};
    for (const auto& [accepted, level] : {std::pair{0.2, DeterminismLevel::kD2},
                                          {0.125, DeterminismLevel::kD2},
                                          {0.124, DeterminismLevel::kD1},
                                          {0.0, DeterminismLevel::kD1}}) {
      spec.auto_cost = accepted;
      CHECK(resolve_level(spec, verdict) == level);
    }
    const D2Verdict faster{
        .vendor_ops = {"op"}, .d1_time = StepTime(2.0), .d2_time = StepTime(1.5)};
    CHECK(resolve_level(spec, faster) == DeterminismLevel::kD2);
  }

  TEST_CASE("a level that the job names stays, whatever its cost") {
    const D2Verdict dear{.vendor_ops = {"op"}, .d1_time = StepTime(1.0), .d2_time = StepTime(3.0)};
    JobSpec spec = job("mlp");
    for (const auto level : {DeterminismLevel::kD0, DeterminismLevel::kD1, DeterminismLevel::kD2}) {
      spec.level = level;
      CHECK(resolve_level(spec, dear) == level);
      CHECK(resolve_level(spec, {}) == level);
    }
  }
}

}  // namespace es::gpu
