#pragma once
// What `esctl sim --out` writes: tables (CSV), charts (SVG) and a page with them (index.html).
#include <string>
#include <utility>
#include <vector>

#include "actors/esctl/commands/sim_runs.h"
#include "actors/sim/report/trials.h"

namespace es::actors::esctl {

// File names and their contents.
using Files = std::vector<std::pair<std::string, std::string>>;

// Creates the directory if necessary. Error: it or a file cannot be written.
Status write_files(const std::string& out, const Files& files);

// `fairness` is the chart of a comparison, or empty.
Status write_results(const SimOptions& options, const Scene& scene, const std::vector<SimRun>& runs,
                     const std::string& fairness);

// The tables and charts of `esctl sim sweep`.
Status write_sweep(const SimOptions& options, const std::vector<simulator::Size>& sizes);

}  // namespace es::actors::esctl
