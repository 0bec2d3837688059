#pragma once
// The output of `esctl sim compare --repeat` and of `esctl sim sweep`. Pure functions.
#include <string>
#include <vector>

#include "actors/sim/report/trials.h"

namespace es::actors {

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

}  // namespace es::actors
