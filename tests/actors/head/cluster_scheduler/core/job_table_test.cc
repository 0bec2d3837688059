#include "actors/head/cluster_scheduler/core/job_table.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace es::actors {
namespace {

std::vector<JobId> order_of(const JobTable& table) {
  std::vector<JobId> jobs;
  for (const auto& [number, job] : table.in_order()) jobs.push_back(job);
  return jobs;
}

TEST_SUITE("cluster_scheduler/job_table") {
  TEST_CASE("the id of a new job ends in the tag of the head, which users may omit") {
    JobTable table("7xcx2yfn");
    const JobId id = table.new_id("a", 3);
    CHECK(id == "a-3-7xcx2yfn");
    table.add_live(id, "", "");
    CHECK(table.find("a-3") == id);
    CHECK(table.find(id) == id);
    CHECK(table.find("b-4") == "b-4-7xcx2yfn");
    CHECK(JobTable("").new_id("a", 3) == "a-3");
    CHECK(JobTable("").find("a-3") == "a-3");
  }

  TEST_CASE("a job that an older head has named is found by its whole name") {
    JobTable table("tag");
    table.add_over("old-1", "", "");
    CHECK(table.find("old-1") == "old-1");
  }

  TEST_CASE("jobs are in the order of submission, and a forgotten one leaves no trace") {
    JobTable table("");
    table.add_live("b", "", "request b");
    table.add_over("a", "", "");
    table.add_live("c", "", "");
    CHECK(order_of(table) == std::vector<JobId>{"b", "a", "c"});
    CHECK(table.live() == std::set<JobId>{"b", "c"});
    REQUIRE(table.made_by("request b") != nullptr);
    CHECK(*table.made_by("request b") == "b");
    CHECK(table.made_by("") == nullptr);
    CHECK(table.end("b"));
    table.forget("b");
    CHECK(order_of(table) == std::vector<JobId>{"a", "c"});
    CHECK_FALSE(table.contains("b"));
    CHECK(table.made_by("request b") == nullptr);
  }

  TEST_CASE("a job ends once, and an unknown one never") {
    JobTable table("");
    table.add_live("a", "", "");
    CHECK_FALSE(table.is_over("a"));
    CHECK(table.end("a"));
    CHECK(table.is_over("a"));
    CHECK_FALSE(table.end("a"));
    CHECK_FALSE(table.end("b"));
    CHECK_FALSE(table.is_over("b"));
  }

  TEST_CASE("a client with a tenant sees the jobs of its tenant, and unknown ones") {
    JobTable table("");
    table.add_live("mine", "red", "");
    table.add_live("other", "blue", "");
    const access::Identity red{.name = "r", .tenant = "red"};
    const access::Identity all{.name = "a"};
    CHECK(table.shows(&red, "mine"));
    CHECK_FALSE(table.shows(&red, "other"));
    CHECK(table.shows(&red, "unknown"));
    CHECK(table.shows(&all, "other"));
    CHECK(table.shows(nullptr, "other"));
  }

  TEST_CASE("only a live job keeps devices for a reason") {
    JobTable table("");
    table.add_live("a", "", "");
    table.keeps_devices("a", "it is saved");
    table.keeps_devices("unknown", "it is saved");
    CHECK(table.why_devices_are_kept("a") == "it is saved");
    CHECK(table.why_devices_are_kept("unknown").empty());
    CHECK(table.end("a"));
    CHECK(table.why_devices_are_kept("a").empty());
    table.keeps_devices("a", "late");
    CHECK(table.why_devices_are_kept("a").empty());
  }
}

}  // namespace
}  // namespace es::actors
