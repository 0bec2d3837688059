#pragma once
// The output of `esctl sim` as text, JSON and a page. Pure functions.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/sim/report/report.h"
#include "actors/sim/report/trials.h"

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

// With the names of simulator::Report.
nlohmann::ordered_json report_object(const simulator::Report& report);

// --- `esctl sim compare --repeat` and `esctl sim sweep` (sim_trials_view.cc).

// A table with one line for each policy, and what differs between the simulations (`varies`).
std::string repeats_text(const std::vector<simulator::Repeats>& policies,
                         const std::string& varies);
// {"varies": ..., "seeds": [...], "policies": [...]} with the names of simulator::RepeatSummary.
std::string repeats_json(const std::vector<simulator::Repeats>& policies,
                         const std::string& varies);

// A table with one line for each size and policy, and which size is enough.
std::string sweep_text(const std::vector<simulator::Size>& sizes);
// {"sizes": [{"scale", "cluster", "devices", "policies": [...]}], "enough": [...]}
std::string sweep_json(const std::vector<simulator::Size>& sizes);
// Which size is enough for a policy: a sentence.
std::string enough_text(const std::vector<simulator::Size>& sizes, std::size_t policy);

// --- The results as one page for a browser, which needs no other file (sim_page.cc).

struct SimPage {
  std::vector<std::pair<std::string, std::string>> facts;  // about the simulation: name, value
  std::vector<simulator::Report> reports;
  std::vector<std::string> notes = {};                      // sentences below the reports
  std::vector<std::pair<std::string, std::string>> charts;  // caption, SVG
  std::string_view style;                                   // CSS
};

std::string sim_page(const SimPage& page);

}  // namespace es::actors
