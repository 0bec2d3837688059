#include "scheduler/model/sync_prior.h"

#include <doctest/doctest.h>

namespace es::scheduler {

TEST_SUITE("scheduler/model/sync_prior") {
  TEST_CASE("a job counts with the seconds that its last point has for each further device") {
    CHECK(seconds_per_device({}) == 0);
    CHECK(seconds_per_device(SyncCurve({{1, 0.5}})) == 0);
    CHECK(seconds_per_device(SyncCurve({{5, 0.2}})) == doctest::Approx(0.05));
    CHECK(seconds_per_device(SyncCurve({{1, 0.1}, {3, 0.15}, {5, 0.3}})) == doctest::Approx(0.05));
  }

  TEST_CASE("three jobs are needed, and the median of them counts") {
    SyncPrior prior;
    CHECK_FALSE(prior.add(1, 0.01));
    CHECK_FALSE(prior.add(2, 5));
    CHECK(prior.seconds() == 0);
    CHECK(prior.add(3, 0.02));
    CHECK(prior.seconds() == 0.02);
  }

  TEST_CASE("nothing is expected while half of the jobs lose nothing") {
    SyncPrior prior;
    for (std::uint64_t job = 1; job <= 4; ++job) prior.add(job, job % 2 == 0 ? 0.01 : 0);
    CHECK(prior.seconds() == 0);
    CHECK(prior.add(5, 0.01));
    CHECK(prior.seconds() == 0.01);
    CHECK(prior.add(5, 0));
    CHECK(prior.seconds() == 0);
  }

  TEST_CASE("a job is counted once, and a small change of the median changes nothing") {
    SyncPrior prior;
    for (int i = 0; i < 10; ++i) CHECK_FALSE(prior.add(7, 0.01));
    prior.add(8, 0.01);
    CHECK(prior.add(9, 0.01));
    for (std::uint64_t job = 7; job <= 9; ++job) CHECK_FALSE(prior.add(job, 0.012));
    CHECK(prior.seconds() == 0.01);
    CHECK_FALSE(prior.add(7, 0.02));
    CHECK(prior.add(8, 0.02));
    CHECK(prior.seconds() == 0.02);
  }

  TEST_CASE("only the newest jobs count") {
    SyncPrior prior;
    for (std::uint64_t job = 0; job < SyncPrior::kJobs; ++job) prior.add(job, 0.01);
    for (std::uint64_t job = 100; job < 100 + SyncPrior::kJobs; ++job) prior.add(job, 0);
    CHECK(prior.seconds() == 0);
  }
}

}  // namespace es::scheduler
