#pragma once
// The output of `esctl profile`: tables, JSON, and bars as SVG. Pure functions.
#include <cstddef>
#include <string>

#include "actors/base/tracing/core/profile.h"
#include "actors/views/table.h"

namespace es::actors {

// For each device type: how its steps are spent, the operators by kind, and the `top` nodes that
// take most time (0: all); then the memory of each worker. `columns` is the width of the terminal.
std::string profile_text(const tracing::Profile& profile, std::size_t top,
                         std::size_t columns = kAnyColumns);
std::string profile_json(const tracing::Profile& profile);
// A bar for each kind of operator of each device type, forward and backward in two colours.
std::string profile_svg(const tracing::Profile& profile);

}  // namespace es::actors
