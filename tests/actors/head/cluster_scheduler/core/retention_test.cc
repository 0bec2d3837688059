// Which jobs that are over a head keeps.
#include "actors/head/cluster_scheduler/core/retention.h"

#include <doctest/doctest.h>

TEST_SUITE("cluster_scheduler/retention") {
  using namespace es;
  using namespace es::actors::cluster;
  using std::chrono::milliseconds;
  using Ids = std::vector<JobId>;

  const std::vector<PastJob> kJobs{{"old", 100}, {"older", 50}, {"unknown", 0}, {"new", 200}};

  TEST_CASE("by default everything is kept") {
    CHECK(not_kept({}, kJobs, 1'000'000).empty());
  }

  TEST_CASE("beyond a number the first ends go, and unknown ones before") {
    CHECK(not_kept({.jobs = 4}, kJobs, 300).empty());
    CHECK(not_kept({.jobs = 2}, kJobs, 300) == Ids{"unknown", "older"});
    CHECK(not_kept({.jobs = 0}, kJobs, 300) == Ids{"unknown", "older", "old", "new"});
  }

  TEST_CASE("an age counts from the end, and an unknown end has none") {
    CHECK(not_kept({.age = milliseconds(200)}, kJobs, 299) == Ids{"older"});
    CHECK(not_kept({.age = milliseconds(200)}, kJobs, 300) == Ids{"older", "old"});
    CHECK(not_kept({.age = milliseconds(500)}, kJobs, 300).empty());
    CHECK(not_kept({.age = milliseconds(0)}, kJobs, 300) == Ids{"older", "old", "new"});
  }

  TEST_CASE("both limits count") {
    CHECK(not_kept({.jobs = 3, .age = milliseconds(200)}, kJobs, 299) == Ids{"unknown", "older"});
  }
}
