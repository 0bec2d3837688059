#include "scheduler/model/capability_watch.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

const DeviceType kType{"a"};

// The capability after these reports, one after the other.
double after(CapabilityWatch& watch, double known, const std::vector<double>& reports) {
  for (const double report : reports) known = watch.add(kType, report, known, true).value_or(known);
  return known;
}

TEST_SUITE("scheduler/capability_watch") {
  TEST_CASE("the first report replaces an assumption, at any distance from it") {
    CHECK(CapabilityWatch().add(kType, 3.0, 20.0, false) == 3.0);
    CHECK(CapabilityWatch().add(kType, 20.5, 20.0, false) == 20.5);
  }

  TEST_CASE("reports within the bound change nothing") {
    CapabilityWatch watch;
    CHECK(after(watch, 10, {10.9, 9.1, 10.5, 9.5, 10.9, 10.9, 10.9}) == 10);
  }

  TEST_CASE(
      "one or two outliers change nothing, and a lasting change is taken after three reports") {
    CapabilityWatch watch;
    CHECK(after(watch, 10, {10, 2, 50, 10, 10}) == 10);
    CHECK(after(watch, 10, {5, 5}) == 10);
    CHECK(after(watch, 10, {5}) == 5);
  }

  TEST_CASE("types are kept apart, and another number of devices begins again") {
    CapabilityWatch watch;
    CHECK(after(watch, 10, {5, 5}) == 10);
    CHECK_FALSE(watch.add({"b"}, 5, 10, true));
    watch.restart();
    CHECK(after(watch, 10, {5, 5}) == 10);
    CHECK(after(watch, 10, {5}) == 5);
  }

  TEST_CASE("under noise within the bound the capability settles and stays") {
    std::mt19937_64 random(test::seed("capability noise"));
    for (int round = 0; round < 200; ++round) {
      CapabilityWatch watch;
      const double truth = 1 + static_cast<double>(random() % 1000);
      const auto report = [&] {
        return truth * (0.96 + 0.08 * static_cast<double>(random() % 1000) / 1000);
      };
      double known = truth * 3;
      for (int i = 0; i < 10; ++i) known = after(watch, known, {report()});
      CHECK(known == doctest::Approx(truth).epsilon(0.05));
      for (int i = 0; i < 100; ++i) CHECK(after(watch, known, {report()}) == known);
    }
  }
}

}  // namespace
}  // namespace es::scheduler
