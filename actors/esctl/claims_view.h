#pragma once
// What `esctl claims` prints. Pure functions.
#include <cstdint>
#include <string>
#include <vector>

#include "actors/esctl/views.h"

namespace es::actors::esctl {

// Of a claim that has at least one device.
struct ClaimView {
  std::string name;
  std::string type;
  std::uint32_t devices = 0;  // that it has by now
};

// By name.
std::vector<ClaimView> claims_of(const std::vector<NodeView>& nodes);

// {"claims": [{"claim": NAME, "type": TYPE, "devices": COUNT}, ...]}
std::string claims_json(const std::vector<ClaimView>& claims);
// A table, one line for each claim.
std::string claims_text(const std::vector<ClaimView>& claims);

}  // namespace es::actors::esctl
