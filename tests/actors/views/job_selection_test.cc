// Which jobs `esctl ps` shows.
#include "actors/views/job_selection.h"

#include <doctest/doctest.h>

TEST_SUITE("actors/esctl/job selection") {
  using namespace es;
  using namespace es::actors;

  std::vector<JobView> some_jobs() {
    std::vector<JobView> jobs(4);
    const char* const states[] = {"finished", "running", "queued", "running"};
    const char* const tenants[] = {"a", "b", "a", "a"};
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      jobs[i].id = std::to_string(i);
      jobs[i].name = i % 2 == 0 ? "even" : "odd";
      jobs[i].state = states[i];
      jobs[i].tenant = tenants[i];
      jobs[i].samples_per_second_now = double(i);
      jobs[i].step = 10 - i;
      jobs[i].last_step = 10;
    }
    return jobs;
  }

  std::string ids(const JobSelection& selection) {
    REQUIRE(check(selection).ok());
    std::string text;
    for (const JobView& job : selected(some_jobs(), selection)) text += job.id;
    return text;
  }

  TEST_CASE("jobs are chosen by state, tenant and age") {
    CHECK(ids({}) == "0123");
    CHECK(ids({.states = {"running"}}) == "13");
    CHECK(ids({.states = {"running", "queued"}, .tenant = "a"}) == "23");
    CHECK(ids({.newest = 2}) == "23");
    CHECK(ids({.states = {"running"}, .newest = 1}) == "3");
    CHECK(ids({.tenant = "none"}).empty());
  }

  TEST_CASE("an order keeps equal jobs in the order of submission") {
    CHECK(ids({.sort = "state"}) == "0213");
    CHECK(ids({.sort = "name"}) == "0213");
    CHECK(ids({.sort = "rate"}) == "3210");
    CHECK(ids({.sort = "progress"}) == "0123");
    CHECK(ids({.sort = "rate", .newest = 2}) == "32");
  }

  TEST_CASE("a wrong word is refused with what is allowed") {
    CHECK(check({.states = {"runing"}}).error().message.find("running") != std::string::npos);
    CHECK(check({.states = {"timed-out"}}).ok());
    CHECK(check({.states = {"runing"}}).error().message.find("timed-out") != std::string::npos);
    CHECK(check({.sort = "age"}).error().message.find("progress") != std::string::npos);
  }
}
