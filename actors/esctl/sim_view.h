#pragma once
// What `esctl sim` prints. Pure functions.
#include <string>
#include <vector>

#include "actors/simulator/report.h"

namespace es::actors::esctl {

// One object; the names are those of simulator::Report.
std::string report_json(const simulator::Report& report);
// {"policies": [...]}
std::string reports_json(const std::vector<simulator::Report>& reports);
// A table, one line for each policy.
std::string reports_text(const std::vector<simulator::Report>& reports);

}  // namespace es::actors::esctl
