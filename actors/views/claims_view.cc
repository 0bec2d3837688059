#include "actors/views/claims_view.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "actors/base/log/line.h"
#include "actors/views/json_text.h"
#include "actors/views/render_text.h"
#include "proto/text_of.h"

namespace es::actors {
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

bool is_reservation(const ClaimView& claim) {
  return claim.until_unix_ms != 0;
}

std::string time_of(std::uint64_t unix_ms) {
  return log::time_text(std::chrono::system_clock::time_point(std::chrono::milliseconds(unix_ms)));
}

}  // namespace

std::vector<ClaimView> read_claims(wire::NodeList::Reader reader) {
  std::vector<ClaimView> claims;
  for (const wire::ClaimInfo::Reader c : reader.getClaims()) {
    claims.push_back(
        {line_of(c.getName()), line_of(c.getDeviceType()), c.getCount(), c.getDevices(), {}});
    ClaimView& claim = claims.back();
    claim.from_unix_ms = c.getFromUnixMs();
    claim.until_unix_ms = c.getUntilUnixMs();
    claim.queue = line_of(c.getQueue());
    claim.begun = c.getBegun() || c.getUntilUnixMs() == 0;
    for (const wire::ClaimWait::Reader w : c.getWaits())
      claim.waits.push_back({line_of(w.getJob()), w.getDevices(), line_of(w.getReason())});
  }
  return claims;
}

std::string claims_text(const std::vector<ClaimView>& claims) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "TYPE", "COUNT", "HAS"}};
  const bool has_times = std::any_of(claims.begin(), claims.end(), is_reservation);
  if (has_times) rows.front().insert(rows.front().end(), {"FROM", "UNTIL", "QUEUE"});
  for (const ClaimView& claim : claims) {
    rows.push_back({claim.name, claim.type, std::to_string(claim.count),
                    claim.queue.empty() ? std::to_string(claim.devices) : "-"});
    if (!has_times) continue;
    const bool timed = is_reservation(claim);
    for (const std::string& cell :
         {timed ? time_of(claim.from_unix_ms) : "-", timed ? time_of(claim.until_unix_ms) : "-",
          claim.queue.empty() ? "-" : claim.queue})
      rows.back().push_back(cell);
  }
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
  for (const ClaimView& claim : claims) {
    nlohmann::ordered_json from, until, queue;
    if (is_reservation(claim))
      from = time_of(claim.from_unix_ms), until = time_of(claim.until_unix_ms);
    if (!claim.queue.empty()) queue = claim.queue;
    list.push_back({{"claim", claim.name},
                    {"type", claim.type},
                    {"count", claim.count},
                    {"devices", claim.devices},
                    {"from", from},
                    {"until", until},
                    {"queue", queue},
                    {"begun", claim.begun},
                    {"waits_for", waits_of(claim)}});
  }
  return json_text({{"claims", list}});
}

}  // namespace es::actors
