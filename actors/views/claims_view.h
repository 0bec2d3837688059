#pragma once
// The output of `esctl claims`. Pure functions.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/messages.h"

namespace es::actors {

// A job that has to leave devices of the claim's type and has not left them yet.
struct ClaimWaitView {
  std::string job;
  std::uint32_t devices = 0;
  std::string reason;  // why it has not left; empty if it is about to leave
};

struct ClaimView {
  std::string name;
  std::string type;
  std::uint32_t count = 0;             // the number of devices that it reserves
  std::uint32_t devices = 0;           // the number of devices that it has now
  std::vector<ClaimWaitView> waits{};  // the jobs that must leave the others
  // Of a reservation, in milliseconds since 1970; 0 for a claim without an end.
  std::uint64_t from_unix_ms = 0, until_unix_ms = 0;
  std::string queue{};  // whose jobs hold the devices, or empty
  bool begun = true;    // false: it begins later
};

// In the order of names. Throws kj::Exception on malformed content, so call it inside Msg::decode.
std::vector<ClaimView> read_claims(wire::NodeList::Reader reader);

// {"claims": [{"claim": NAME, "type": TYPE, "count": COUNT, "devices": COUNT, "from": TIME or null,
// "until": TIME or null, "queue": NAME or null, "begun": BOOL, "waits_for": [{"job": ID, "devices":
// COUNT, "reason": TEXT or null}, ...]}, ...]}
std::string claims_json(const std::vector<ClaimView>& claims);
// A table with one line for each claim, and the jobs that each waits for.
std::string claims_text(const std::vector<ClaimView>& claims);
// For each such job, the line "claim NAME waits for 1 TYPE of job X, which cannot save its state:
// REASON\n".
std::string claim_waits_text(const ClaimView& claim);

}  // namespace es::actors
