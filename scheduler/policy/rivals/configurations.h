#pragma once
// The configurations out of which Sia and Themis choose one for each job: a number of devices of
// one type. Pure functions of values; thread-safe.
#include <optional>
#include <span>
#include <vector>

#include "scheduler/policy/common/assignment.h"
#include "scheduler/policy/common/cluster_table.h"
#include "scheduler/policy/common/rounds.h"

namespace es::scheduler {

struct Option {
  std::size_t type = 0;
  std::uint32_t devices = 0;
  double speed = 0;      // local steps per second
  bool is_held = false;  // exactly what the job holds
};

// Powers of two of each type, max_devices, min_devices, and what the job holds: only numbers of
// which every device is useful, which the job does not refuse, and which the rules of policy.h
// allow. Ascending by type and number.
std::vector<Option> options_of(const ClusterTable& table, const JobRow& row);

// The fastest of the options whose devices are left for the job; nullptr if there is none.
const Option* fastest_left(const JobRow& row, std::span<const Option> options,
                           const Rounds& rounds);

// Jobs that compete for what is left, in the order in which equal ones are served.
struct Contender {
  std::size_t slot = 0;
  std::vector<Option> options;
  std::vector<double> values;  // of each option; an option with a value <= 0 is not taken
};

// Assigns the devices that are left (assignment.h), and gives them to the jobs. Returns the index
// of the option of each contender, if it has one.
std::vector<std::optional<std::size_t>> assign_options(const ClusterTable& table,
                                                       std::span<const Contender> contenders,
                                                       Rounds& rounds);

}  // namespace es::scheduler
