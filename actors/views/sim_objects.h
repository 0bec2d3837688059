#pragma once
// The results of simulations as parts of JSON documents. Pure functions.
#include <nlohmann/json.hpp>

#include "actors/sim/report/report.h"

namespace es::actors {

// With the names of simulator::Report.
nlohmann::ordered_json report_object(const simulator::Report& report);

}  // namespace es::actors
