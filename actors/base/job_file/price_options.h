#pragma once
// The prices of devices as program options: --price TYPE=NUMBER and --spot-price TYPE=NUMBER.
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "scheduler/policy/common/prices.h"

namespace es::actors {

// Error (usage): an option is malformed, names a type twice, or a spot price has a type without a
// price. It names the option, its value and what is allowed.
Result<scheduler::Prices> parse_prices(const std::vector<std::string>& prices,
                                       const std::vector<std::string>& spot_prices);

}  // namespace es::actors
