#pragma once
// The output of `esctl sim`. Pure functions.
#include <string>
#include <vector>

#include "actors/sim/report/report.h"

namespace es::actors {

// One object with the names of simulator::Report.
std::string report_json(const simulator::Report& report);
// {"policies": [...]}
std::string reports_json(const std::vector<simulator::Report>& reports);
// A table with one line for each policy.
std::string reports_text(const std::vector<simulator::Report>& reports);
// A table for each kind of groups that a trace has several of, but not too many for a terminal; it
// begins with an empty line.
std::string groups_text(const simulator::Report& report);
// Whether a queue had its guarantee: a sentence without its full stop.
std::string guarantee_text(const simulator::Guarantee& guarantee);

}  // namespace es::actors
