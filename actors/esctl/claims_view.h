#pragma once
// What `esctl claims` prints. Pure functions.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/messages.h"

namespace es::actors::esctl {

struct ClaimView {
  std::string name;
  std::string type;
  std::uint32_t count = 0;    // that it takes
  std::uint32_t devices = 0;  // of these, those that it has by now
};

// By name. Throws kj::Exception on malformed content: call it inside Msg::decode.
std::vector<ClaimView> read_claims(wire::NodeList::Reader reader);

// {"claims": [{"claim": NAME, "type": TYPE, "count": COUNT, "devices": COUNT}, ...]}
std::string claims_json(const std::vector<ClaimView>& claims);
// A table, one line for each claim.
std::string claims_text(const std::vector<ClaimView>& claims);

}  // namespace es::actors::esctl
