#include "actors/views/job_selection.h"

#include <algorithm>
#include <functional>

namespace es::actors {
namespace {

constexpr const char* kStates[] = {"queued",   "starting", "running",   "rescaling", "paused",
                                   "finished", "failed",   "cancelled", "timed-out"};

double progress_of(const JobView& job) {
  return job.last_step == 0 ? 0.0 : double(job.step) / double(job.last_step);
}

struct Order {
  const char* name;
  bool (*before)(const JobView&, const JobView&);
};

// Numbers: the largest first, since one looks for what runs fastest or ends soonest.
constexpr Order kOrders[] = {
    {"submitted", nullptr},
    {"state", [](const JobView& a, const JobView& b) { return a.state < b.state; }},
    {"name", [](const JobView& a, const JobView& b) { return a.name < b.name; }},
    {"rate", [](const JobView& a,
                const JobView& b) { return a.samples_per_second_now > b.samples_per_second_now; }},
    {"progress",
     [](const JobView& a, const JobView& b) { return progress_of(a) > progress_of(b); }},
};

}  // namespace

std::span<const char* const> job_states() {
  return kStates;
}

std::string job_state_list() {
  std::string names;
  for (const char* state : kStates) names += (names.empty() ? "" : ", ") + std::string(state);
  return names;
}

bool is_job_state(const std::string& text) {
  return std::find(std::begin(kStates), std::end(kStates), text) != std::end(kStates);
}

Status check(const JobSelection& selection) {
  for (const std::string& state : selection.states)
    if (!is_job_state(state))
      return usage_error("--state = \"" + state + "\": allowed are " + job_state_list());
  for (const Order& order : kOrders)
    if (selection.sort == order.name) return {};
  return usage_error("--sort = \"" + selection.sort +
                     "\": allowed are submitted, state, name, rate, progress");
}

std::vector<JobView> selected(std::vector<JobView> jobs, const JobSelection& selection) {
  const auto has_state = [&](const JobView& job) {
    return selection.states.empty() || std::find(selection.states.begin(), selection.states.end(),
                                                 job.state) != selection.states.end();
  };
  std::erase_if(jobs, [&](const JobView& job) {
    return !has_state(job) || (!selection.tenant.empty() && job.tenant != selection.tenant);
  });
  if (selection.newest != 0 && jobs.size() > selection.newest)
    jobs.erase(jobs.begin(), jobs.end() - static_cast<std::ptrdiff_t>(selection.newest));
  for (const Order& order : kOrders)
    // Jobs that are equal in this order stay in the order of submission.
    if (selection.sort == order.name && order.before != nullptr)
      std::stable_sort(jobs.begin(), jobs.end(), order.before);
  return jobs;
}

}  // namespace es::actors
