#include "actors/kubernetes/core/agent_groups.h"

#include <doctest/doctest.h>

#include "actors/kubernetes/core/job_steps.h"
#include "tests/actors/kubernetes/core/small_cluster.h"

using namespace es::actors;
using namespace es::actors::kubernetes;

namespace {

Json pod(const char* name, const char* group, const char* phase, const char* node,
         bool deleted = false) {
  Json made{{"metadata", {{"name", name}, {"labels", {{kGroupLabel, group}}}}},
            {"spec", Json::object()},
            {"status", {{"phase", phase}}}};
  if (*node != 0) made["spec"]["nodeName"] = node;
  if (deleted) made["metadata"]["deletionTimestamp"] = "t";
  return made;
}

}  // namespace

TEST_SUITE("actors/kubernetes/core/agent_groups") {
  TEST_CASE("a pod that is being deleted is no agent any more, and keeps its index") {
    const HeadFacts head{
        .jobs = {}, .nodes = {{"c-big-0", {.devices = 8, .devices_in_use = 2}}}, .claims = {}};
    const std::vector<Json> all{
        pod("c-big-0", "big", "Running", "n1"), pod("c-big-1", "big", "Running", "n2", true),
        pod("c-big-2", "big", "Pending", ""), pod("c-big-3", "big", "Failed", "n1"),
        pod("c-small-0", "small", "Running", "n1")};
    std::vector<const Json*> pods;
    for (const Json& one : all) pods.push_back(&one);
    const auto agents = agents_seen(pods, "big", head, false);
    REQUIRE(agents.size() == 4);
    CHECK(agents[0].state == AgentState::kRunning);
    CHECK(agents[0].devices == 8);
    CHECK(agents[0].devices_in_use == 2);
    CHECK(agents[1].state == AgentState::kEnding);
    CHECK(agents[1].index == 1);
    CHECK(agents[2].state == AgentState::kQueued);
    CHECK(agents[3].state == AgentState::kEnding);
    CHECK(agents_seen(pods, "big",
                      {.jobs = {}, .nodes = {{"c-big-0", {.devices = 8}}}, .claims = {}}, true)[0]
              .devices_in_use == 1);
    CHECK(pods_over(pods) == std::vector<std::string>{"c-big-3"});
  }

  TEST_CASE("wishes go to the groups that suit, the first one first, as far as they may grow") {
    const auto groups = groups_of(kCluster);
    const auto job = [](const char* name, const char* spec) {
      return Json{{"metadata", {{"name", name}}},
                  {"spec", Json::parse(spec)},
                  {"status", {{"job", std::string(name) + "-1"}}}};
    };
    HeadFacts head;
    // One that the head refuses while there are no devices.
    Json waits = job("e", R"({"maxP": 3, "resources": {"deviceTypes": ["cpu-avx2"]}})");
    waits["status"] = {{"phase", kWaiting}};
    for (const char* name : {"a", "b", "c", "d"})
      head.jobs[std::string(name) + "-1"] = {.state = "queued", .devices_wanted = 10};
    head.jobs["d-1"].state = "finished";
    const std::vector<Json> all{job("a", R"({"devices": 12})"),
                                job("b", R"({"resources": {"deviceTypes": ["cpu-avx2"]}})"),
                                job("c", "{}"), job("d", "{}"), waits};
    std::vector<const Json*> jobs;
    for (const Json& one : all) jobs.push_back(&one);
    const auto wanted = wanted_of_groups(groups, jobs, head);
    using Wanted = std::map<std::string, std::uint32_t>;
    CHECK(wanted[0] == Wanted{{"a", 12}, {"c", 4}});
    CHECK(wanted[1] == Wanted{{"b", 10}, {"c", 6}, {"e", 3}});
  }

  TEST_CASE("without a volume for all pods agents hold the states of jobs that are not over") {
    Json with = kCluster;
    with["spec"]["checkpointClaim"] = "shared";
    HeadFacts facts;
    facts.jobs["a"].state = "paused";
    CHECK(agents_hold_states(kCluster, facts));
    CHECK(!agents_hold_states(with, facts));
    facts.jobs["a"].state = "finished";
    CHECK(!agents_hold_states(kCluster, facts));
  }

  TEST_CASE("claims make the groups of their type grow, and keep agents") {
    Json cluster = kCluster;
    cluster["spec"]["agents"][0]["min"] = 0;
    HeadFacts head;
    head.claims["web"] = {.type = "h100", .devices = 9};
    AgentGroups groups;
    const auto first = groups.decide(cluster, {}, {}, head, std::chrono::seconds(0));
    REQUIRE(first.make.size() == 2);
    CHECK(name_of(first.make[1]) == "c-big-1");
    const std::vector<Json> all{pod("c-big-0", "big", "Running", "n1"),
                                pod("c-big-1", "big", "Running", "n2")};
    const std::vector<const Json*> pods{&all[0], &all[1]};
    head.nodes = {{"c-big-0", {.devices = 8}}, {"c-big-1", {.devices = 8}}};
    for (int second : {1, 1000}) {
      const auto orders = groups.decide(cluster, {}, pods, head, std::chrono::seconds(second));
      CHECK((orders.make.empty() && orders.end.empty()));
    }
    head.claims["web"].devices = 8;
    groups.decide(cluster, {}, pods, head, std::chrono::seconds(1001));
    const auto last = groups.decide(cluster, {}, pods, head, std::chrono::seconds(1100));
    REQUIRE(last.end.size() == 1);
    CHECK(last.end[0].pod == "c-big-1");
  }

  TEST_CASE("a group with other limits is planned by them, and what is over is removed") {
    Json cluster = kCluster;
    cluster["spec"]["agents"].erase(1);
    AgentGroups groups;
    CHECK(groups.decide(cluster, {}, {}, {}, std::chrono::seconds(0)).make.size() == 1);
    cluster["spec"]["agents"][0]["min"] = 2;
    CHECK(groups.decide(cluster, {}, {}, {}, std::chrono::seconds(1)).make.size() == 2);
    const Json over = pod("c-big-0", "big", "Failed", "n1");
    const auto orders = groups.decide(cluster, {}, {&over}, {}, std::chrono::seconds(2));
    REQUIRE(orders.end.size() == 1);
    CHECK(orders.end[0].why == "it is over");
  }
}
