#include "actors/kubernetes/core/cluster_status.h"

#include "actors/kubernetes/core/cluster_objects.h"
#include "actors/kubernetes/core/conditions.h"

namespace es::actors::kubernetes {

Json cluster_status(const Json& cluster, const HeadFacts* head, const std::string& trouble,
                    const std::string& now) {
  const std::int64_t generation = value_at(cluster, {"metadata", "generation"}, std::int64_t{0});
  Json status = value_at(cluster, {"status"}, Json::object());
  const Json before = value_at(status, {"conditions"}, Json::array());
  status["observedGeneration"] = generation;
  status["phase"] = head != nullptr ? "Serving" : "Waiting";
  status["endpoint"] = head_endpoint(cluster);
  if (head != nullptr) {
    std::uint32_t agents = 0, devices = 0, in_use = 0;
    for (const auto& [name, node] : head->nodes) {
      agents += node.devices > 0 ? 1 : 0;
      devices += node.devices;
      in_use += node.devices_in_use;
    }
    status["agents"] = agents;
    status["devices"] = devices;
    status["devicesInUse"] = in_use;
  }
  status["conditions"] = Json::array();
  set_condition(status["conditions"], before, "Ready", head != nullptr ? "True" : "False",
                head != nullptr ? "Serving" : "NoHead",
                head != nullptr ? "The head answers." : trouble, generation, now);
  return status;
}

}  // namespace es::actors::kubernetes
