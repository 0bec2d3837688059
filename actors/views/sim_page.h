#pragma once
// The results of `esctl sim` as one page for a browser, which needs no other file. Pure.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/sim/report/report.h"

namespace es::actors {

struct SimPage {
  std::vector<std::pair<std::string, std::string>> facts;  // about the simulation: name, value
  std::vector<simulator::Report> reports;
  std::vector<std::string> notes = {};                      // sentences below the reports
  std::vector<std::pair<std::string, std::string>> charts;  // caption, SVG
  std::string_view style;                                   // CSS
};

std::string sim_page(const SimPage& page);

}  // namespace es::actors
