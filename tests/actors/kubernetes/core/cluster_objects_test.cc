#include "actors/kubernetes/core/cluster_objects.h"

#include <doctest/doctest.h>

#include "tests/actors/kubernetes/core/small_cluster.h"

using namespace es::actors;
using namespace es::actors::kubernetes;

namespace {

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

  TEST_CASE("a claim for checkpoints is at one path in all pods") {
    Json with = kCluster;
    with["spec"]["checkpointClaim"] = "shared";
    const std::string path = "/srv/easyscale/state/checkpoints";
    const Json agent = agent_pod(with, with["spec"]["agents"][1], 0);
    CHECK(agent["spec"]["containers"][0]["volumeMounts"].back()["mountPath"] == path);
    const Json head = head_set(with)["spec"]["template"]["spec"];
    CHECK(head["containers"][0]["volumeMounts"].back()["mountPath"] == path);
  }
}
