#pragma once
// How a list of jobs says that a queued job waits although free devices suffice for it: its
// `waiting_for` begins with this, and names the rule and its end after it.
#include <string_view>

namespace es::actors {

inline constexpr std::string_view kTurn = "its turn beside free devices: ";

}  // namespace es::actors
