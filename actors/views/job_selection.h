#pragma once
// Which jobs a list shows, and in which order. Pure functions.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "actors/views/views.h"

namespace es::actors {

// The names of all states of a job, in the order of its life.
std::span<const char* const> job_states();
// "queued, starting, ...", for errors.
std::string job_state_list();
bool is_job_state(const std::string& text);

struct JobSelection {
  std::vector<std::string> states;  // empty: all
  std::string tenant;               // empty: all
  std::string sort = "submitted";   // submitted | state | name | rate | progress
  std::size_t newest = 0;           // only this number of those that were submitted last; 0: all
};

// Error (usage): a state or an order that does not exist. It names all.
Status check(const JobSelection& selection);

// `jobs` are in the order of submission. REQUIRES: check(selection).
std::vector<JobView> selected(std::vector<JobView> jobs, const JobSelection& selection);

}  // namespace es::actors
