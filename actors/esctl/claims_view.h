#pragma once
// What `esctl claims` prints. Pure functions.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/messages.h"

namespace es::actors::esctl {

// A job that was called back from devices of the claim's type and has not left them.
struct ClaimWaitView {
  std::string job;
  std::uint32_t devices = 0;
  std::string reason;  // why; empty: it is about to leave
};

struct ClaimView {
  std::string name;
  std::string type;
  std::uint32_t count = 0;             // that it takes
  std::uint32_t devices = 0;           // of these, those that it has by now
  std::vector<ClaimWaitView> waits{};  // for the others
};

// By name. Throws kj::Exception on malformed content: call it inside Msg::decode.
std::vector<ClaimView> read_claims(wire::NodeList::Reader reader);

// {"claims": [{"claim": NAME, "type": TYPE, "count": COUNT, "devices": COUNT, "waits_for":
// [{"job": ID, "devices": COUNT, "reason": TEXT or null}, ...]}, ...]}
std::string claims_json(const std::vector<ClaimView>& claims);
// A table, one line for each claim, and what they wait for.
std::string claims_text(const std::vector<ClaimView>& claims);
// "claim NAME waits for 1 TYPE of job X, which cannot save its state: REASON\n" for each such job.
std::string claim_waits_text(const ClaimView& claim);

}  // namespace es::actors::esctl
