#include "actors/esctl/claims_view.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "actors/esctl/render_text.h"

namespace es::actors::esctl {

std::vector<ClaimView> claims_of(const std::vector<NodeView>& nodes) {
  constexpr std::string_view kOwner = "claim:";  // claim_owner() in actors/cluster_scheduler
  std::map<std::string, ClaimView> by_name;
  for (const NodeView& node : nodes) {
    for (const DeviceView& device : node.devices) {
      if (!device.job.starts_with(kOwner)) continue;
      const std::string name = device.job.substr(kOwner.size());
      ClaimView& claim = by_name.try_emplace(name, ClaimView{name, device.type, 0}).first->second;
      ++claim.devices;
    }
  }
  std::vector<ClaimView> claims;
  for (const auto& [name, claim] : by_name) claims.push_back(claim);
  return claims;
}

std::string claims_text(const std::vector<ClaimView>& claims) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "DEVICES", "COUNT"}};
  for (const ClaimView& claim : claims)
    rows.push_back({claim.name, claim.type, std::to_string(claim.devices)});
  return table(rows);
}

std::string claims_json(const std::vector<ClaimView>& claims) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ClaimView& claim : claims)
    list.push_back({{"claim", claim.name}, {"type", claim.type}, {"devices", claim.devices}});
  return nlohmann::ordered_json{{"claims", list}}.dump(2);
}

}  // namespace es::actors::esctl
