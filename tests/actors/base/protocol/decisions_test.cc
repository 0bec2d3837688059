// What evaluations decide, beside torch.optim.lr_scheduler.ReduceLROnPlateau of PyTorch 2.15.
#include "actors/base/protocol/core/decisions.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace es;
using namespace es::actors::protocol;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The values of a metric, and the learning rate that torch has after each of them.
struct Case {
  ScheduleSpec schedule;
  std::vector<double> values, rates;
};

ScheduleSpec plateau(const char* metric, double gamma, std::uint32_t patience, double threshold,
                     const char* mode, std::uint32_t cooldown, double min_rate) {
  return {.kind = "plateau",
          .gamma = gamma,
          .metric = metric,
          .patience = patience,
          .threshold = threshold,
          .threshold_mode = mode,
          .cooldown = cooldown,
          .min_rate = min_rate};
}

const std::vector<Case> kCases = {
    {plateau("loss", 0.1, 2, 1e-4, "rel", 0, 0),
     {1.0,    0.9999, 1.0199, 0.9699, 0.9199, kNan,   0.8999, 0.8999,
      0.9299, 0.8799, 0.9099, 0.9098, 0.8598, 0.8098, 0.8298, 0.8498,
      0.7998, 0.7997, 0.7497, 0.7797, 0.7997, 0.7497, 0.7797, 0.7297},
     {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1,  0.1,  0.1,
      0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01}},
    {plateau("loss", 0.5, 0, 0.02, "abs", 2, 0),
     {0.9999, 1.0299, 0.9799, 1.0099, 1.0399, kNan,   1.0099, 1.0098,
      0.9598, 0.9898, 0.9897, 0.9897, 1.0097, 1.0096, 1.0396, 0.9896,
      1.0196, 1.0196, 1.0496, 1.0495, 0.9995, 1.0295, 1.0595, 1.0594},
     {0.1,       0.05,       0.05,       0.05,       0.025,       0.025,
      0.025,     0.0125,     0.0125,     0.0125,     0.00625,     0.00625,
      0.00625,   0.003125,   0.003125,   0.003125,   0.0015625,   0.0015625,
      0.0015625, 0.00078125, 0.00078125, 0.00078125, 0.000390625, 0.000390625}},
    {plateau("accuracy", 0.3, 1, 0.01, "rel", 1, 1e-3),
     {1.0,    0.95,   0.98,   0.93,   0.96,   0.91,   0.94,   0.9399,
      0.9599, 0.9899, 1.0099, 1.0099, 1.0299, 1.0599, 1.0799, 1.0799,
      1.0799, 1.0798, 1.0797, 1.0796, 1.0296, 1.0596, 1.0596, 1.0896},
     {0.1,   0.1,   0.03,  0.03,  0.03,  0.009, 0.009, 0.009, 0.0027, 0.0027, 0.0027, 0.001,
      0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001,  0.001,  0.001,  0.001}},
};

JobSpec stopping(const char* metric, std::uint32_t patience, double min_delta) {
  JobSpec spec;
  spec.stop = {.metric = metric, .patience = patience, .min_delta = min_delta};
  return spec;
}

// The number of evaluations after which the job ends; 0: it does not.
std::size_t end_of(const JobSpec& spec, const std::vector<double>& values) {
  Decisions decisions;
  for (std::size_t i = 0; i < values.size(); ++i) {
    decisions = decide(spec, decisions, [&](const std::string&) { return values[i]; });
    if (stops(spec, decisions)) return i + 1;
  }
  return 0;
}

}  // namespace

TEST_SUITE("actors/base/protocol/decisions") {
  TEST_CASE("the rate falls after the same evaluations as in torch") {
    for (const Case& c : kCases) {
      JobSpec spec;
      spec.schedule = c.schedule;
      Decisions decisions;
      for (std::size_t i = 0; i < c.values.size(); ++i) {
        INFO(c.schedule.metric << ", evaluation " << i);
        decisions = decide(spec, decisions, [&](const std::string& metric) {
          CHECK(metric == c.schedule.metric);
          return c.values[i];
        });
        double rate = 0.1;
        for (std::uint32_t n = 0; n < decisions.reductions; ++n)
          rate = std::max(rate * c.schedule.gamma, c.schedule.min_rate);
        CHECK(rate == doctest::Approx(c.rates[i]).epsilon(1e-12));
        CHECK(decode_decisions(encode(decisions)).value() == decisions);
      }
      CHECK(decisions.reductions > 0);
      CHECK(decisions.stop == Trend());
    }
  }

  TEST_CASE("a job ends after so many evaluations that were not better by more than min_delta") {
    CHECK(end_of(stopping("loss", 2, 0.0), {3, 2, 2, 1, 1.5, 1, 0}) == 6);
    CHECK(end_of(stopping("loss", 2, 0.5), {3, 2.5, 2.6, 2.7, 1.7}) == 3);
    CHECK(end_of(stopping("accuracy", 1, 0.0), {0.1, 0.2, 0.3, 0.3}) == 4);
    CHECK(end_of(stopping("accuracy", 3, 0.0), {0.1, 0.0, 0.0, 0.2, 0.1}) == 0);
    CHECK(end_of(stopping("loss", 2, 0.0), {kNan, kNan, 1}) == 2);
    CHECK(end_of(stopping("", 1, 0.0), {1, 1, 1}) == 0);
  }

  TEST_CASE("the best value is the first of equal ones, and NaN is none") {
    JobSpec spec;
    spec.checkpoint.keep_best = "mae";
    CHECK(is_best(spec, 1.0, std::nullopt));
    CHECK(is_best(spec, 0.5, 1.0));
    CHECK_FALSE(is_best(spec, 1.0, 1.0));
    CHECK_FALSE(is_best(spec, kNan, 1.0));
    CHECK_FALSE(is_best(spec, kNan, std::nullopt));
    spec.checkpoint.keep_best = "top5";
    CHECK(is_best(spec, 1.5, 1.0));
    CHECK_FALSE(is_best(spec, 0.5, 1.0));
  }

  TEST_CASE("only evaluated versions decide, and may be the last one") {
    JobSpec spec = stopping("loss", 1, 0.0);
    spec.eval_every = 4;
    CHECK_FALSE(is_decided(0, 4));
    CHECK(is_decided(8, 4));
    CHECK_FALSE(is_decided(9, 4));
    CHECK_FALSE(is_decided(8, 0));
    CHECK(decided_every(spec) == 4);
    CHECK(may_be_last(spec, 4, 10));
    CHECK_FALSE(may_be_last(spec, 5, 10));
    CHECK(may_be_last(spec, 10, 10));
    spec.stop.metric = "";
    CHECK(decided_every(spec) == 0);
    CHECK_FALSE(may_be_last(spec, 4, 10));
  }

  TEST_CASE("a text that was changed is refused") {
    const std::string text = encode(Decisions{{0.5, 2}, 1, 3, {}});
    REQUIRE(decode_decisions(text).ok());
    CHECK_FALSE(decode_decisions("").ok());
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::string changed = text;
      changed[i] = '~';
      CHECK_FALSE(decode_decisions(changed).ok());
    }
  }
}
