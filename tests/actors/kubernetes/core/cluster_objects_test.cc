#include "actors/kubernetes/core/cluster_objects.h"

#include <doctest/doctest.h>

#include "actors/kubernetes/core/job_steps.h"

using namespace es::actors;
using namespace es::actors::kubernetes;

namespace {

const Json kCluster = Json::parse(R"({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
    "spec": {"image": "i:1", "idleSeconds": 60, "head": {"storage": "5Gi"}, "agents": [
      {"name": "big", "devices": "h100:8", "min": 1, "max": 2, "spot": true,
       "options": ["--rack", "r1"],
       "template": {"nodeSelector": {"gpu": "h100"}, "volumes": [{"name": "d"}]}},
      {"name": "small", "devices": "cpu-avx2:1", "max": 40}]}})");

Json pod(const char* name, const char* group, const char* phase, const char* node,
         bool deleted = false) {
  Json made{{"metadata", {{"name", name}, {"labels", {{kGroupLabel, group}}}}},
            {"spec", Json::object()},
            {"status", {{"phase", phase}}}};
  if (*node != 0) made["spec"]["nodeName"] = node;
  if (deleted) made["metadata"]["deletionTimestamp"] = "t";
  return made;
}

bool contains(const Json& list, const std::string& text) {
  return std::find(list.begin(), list.end(), Json(text)) != list.end();
}

}  // namespace

TEST_SUITE("actors/kubernetes/core/cluster_objects") {
  TEST_CASE("an agent joins the head of its cluster by name, and sees only the keys of a node") {
    const Json agent = agent_pod(kCluster, kCluster["spec"]["agents"][0], 3);
    CHECK(name_of(agent) == "c-big-3");
    CHECK(agent["metadata"]["ownerReferences"][0]["uid"] == "u");
    const Json& box = agent["spec"]["containers"][0];
    CHECK(contains(box["command"], "tcp://c-head.n.svc:7070"));
    CHECK(contains(box["command"], "--spot"));
    CHECK(contains(box["command"], "r1"));
    CHECK(agent["spec"]["nodeSelector"]["gpu"] == "h100");
    CHECK(agent["spec"]["volumes"].back()["name"] == "d");
    CHECK(agent["spec"]["volumes"][0].dump().find("client.key") == std::string::npos);
    CHECK(agent["spec"]["terminationGracePeriodSeconds"] > 25);
    CHECK(box["securityContext"]["readOnlyRootFilesystem"] == true);
    CHECK(agent["spec"]["securityContext"]["runAsNonRoot"] == true);
  }

  TEST_CASE("the head has a volume if the cluster says how large it is") {
    const Json set = head_set(kCluster);
    CHECK(set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] ==
          "5Gi");
    Json without = kCluster;
    without["spec"].erase("head");
    CHECK(!head_set(without)["spec"].contains("volumeClaimTemplates"));
    CHECK(head_set(without)["spec"]["template"]["spec"]["volumes"].back()["name"] == "state");
  }

  TEST_CASE("a claim for checkpoints is at one path in all pods; without it agents hold states") {
    Json with = kCluster;
    with["spec"]["checkpointClaim"] = "shared";
    const std::string path = "/srv/easyscale/state/checkpoints";
    const Json agent = agent_pod(with, with["spec"]["agents"][1], 0);
    CHECK(agent["spec"]["containers"][0]["volumeMounts"].back()["mountPath"] == path);
    const Json head = head_set(with)["spec"]["template"]["spec"];
    CHECK(head["containers"][0]["volumeMounts"].back()["mountPath"] == path);
    HeadFacts facts;
    facts.jobs["a"].state = "paused";
    CHECK(agents_hold_states(kCluster, facts));
    CHECK(!agents_hold_states(with, facts));
    facts.jobs["a"].state = "finished";
    CHECK(!agents_hold_states(kCluster, facts));
  }

  TEST_CASE("a pod that is being deleted is no agent any more, and keeps its index") {
    const HeadFacts head{.jobs = {}, .nodes = {{"c-big-0", {.devices = 8, .devices_in_use = 2}}}};
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
    CHECK(agents_seen(pods, "big", {.jobs = {}, .nodes = {{"c-big-0", {.devices = 8}}}}, true)[0]
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
}
