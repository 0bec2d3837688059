#include "actors/esctl/claims_view.h"

#include <nlohmann/json.hpp>

#include "actors/esctl/render_text.h"

namespace es::actors::esctl {

std::vector<ClaimView> read_claims(wire::NodeList::Reader reader) {
  std::vector<ClaimView> claims;
  for (const wire::ClaimInfo::Reader c : reader.getClaims())
    claims.push_back({c.getName().cStr(), c.getDeviceType().cStr(), c.getCount(), c.getDevices()});
  return claims;
}

std::string claims_text(const std::vector<ClaimView>& claims) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "TYPE", "COUNT", "HAS"}};
  for (const ClaimView& claim : claims)
    rows.push_back(
        {claim.name, claim.type, std::to_string(claim.count), std::to_string(claim.devices)});
  return table(rows);
}

std::string claims_json(const std::vector<ClaimView>& claims) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ClaimView& claim : claims)
    list.push_back({{"claim", claim.name},
                    {"type", claim.type},
                    {"count", claim.count},
                    {"devices", claim.devices}});
  return nlohmann::ordered_json{{"claims", list}}.dump(2);
}

}  // namespace es::actors::esctl
