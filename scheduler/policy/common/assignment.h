#pragma once
// Which configuration does each job take? An integer program, for the policies that choose one
// configuration (a number of devices of one type) for each job:
//
//   maximise  sum_gk value_gk * x_gk                 x_gk: jobs of group g with configuration k
//   where     sum_k x_gk <= jobs_g                   for each group
//             sum_gk devices_gk [type t] * x_gk <= capacity_t   for each type
//
// Jobs with equal configurations and values form one group, which changes nothing and makes the
// program small. Pure and deterministic.
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/policy/common/counts.h"

namespace es::scheduler {

struct Configuration {
  std::size_t type = 0;
  std::uint32_t devices = 0;  // > 0
  double value = 0;           // > 0: a configuration that is worth nothing is not listed
};

struct AssignmentGroup {
  std::uint32_t jobs = 1;
  std::vector<Configuration> configurations;
};

// x, by group and configuration. It is the best one up to 0.01 %, or what a bounded search has
// found, which is never worse than a greedy choice by value per device.
std::vector<Counts> assign_configurations(std::span<const AssignmentGroup> groups,
                                          const Counts& capacity);

}  // namespace es::scheduler
