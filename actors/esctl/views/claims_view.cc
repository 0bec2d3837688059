#include "actors/esctl/views/claims_view.h"

#include <nlohmann/json.hpp>

#include "actors/esctl/views/json_text.h"
#include "actors/esctl/views/render_text.h"
#include "proto/text_of.h"

namespace es::actors::esctl {
namespace {

nlohmann::ordered_json waits_of(const ClaimView& claim) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ClaimWaitView& wait : claim.waits) {
    nlohmann::ordered_json reason;
    if (!wait.reason.empty()) reason = wait.reason;
    list.push_back({{"job", wait.job}, {"devices", wait.devices}, {"reason", reason}});
  }
  return list;
}

}  // namespace

std::vector<ClaimView> read_claims(wire::NodeList::Reader reader) {
  std::vector<ClaimView> claims;
  for (const wire::ClaimInfo::Reader c : reader.getClaims()) {
    claims.push_back(
        {line_of(c.getName()), line_of(c.getDeviceType()), c.getCount(), c.getDevices(), {}});
    for (const wire::ClaimWait::Reader w : c.getWaits())
      claims.back().waits.push_back({line_of(w.getJob()), w.getDevices(), line_of(w.getReason())});
  }
  return claims;
}

std::string claims_text(const std::vector<ClaimView>& claims) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "TYPE", "COUNT", "HAS"}};
  for (const ClaimView& claim : claims)
    rows.push_back(
        {claim.name, claim.type, std::to_string(claim.count), std::to_string(claim.devices)});
  std::string text = table(rows);
  for (const ClaimView& claim : claims) text += claim_waits_text(claim);
  return text;
}

std::string claim_waits_text(const ClaimView& claim) {
  std::string text;
  for (const ClaimWaitView& wait : claim.waits)
    text += "claim " + claim.name + " waits for " + std::to_string(wait.devices) + " " +
            claim.type + " of job " + wait.job +
            (wait.reason.empty() ? ", which leaves at its next step boundary"
                                 : ", which cannot save its state: " + wait.reason) +
            "\n";
  return text;
}

std::string claims_json(const std::vector<ClaimView>& claims) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ClaimView& claim : claims)
    list.push_back({{"claim", claim.name},
                    {"type", claim.type},
                    {"count", claim.count},
                    {"devices", claim.devices},
                    {"waits_for", waits_of(claim)}});
  return json_text({{"claims", list}});
}

}  // namespace es::actors::esctl
