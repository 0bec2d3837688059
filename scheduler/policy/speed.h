#pragma once
// How fast a job is on so many devices, by the model of model.h, fast enough to be asked thousands
// of times in one decision. Types are indices 0 .. T-1 into spans of equal length:
//
//   counts[i]        N_i, devices of type i
//   capabilities[i]  C_i, local steps per second of one of them; 0: the job cannot use the type
//
// Speeds are in local steps per second: throughput of the best plan that uses no more than the
// counts. Pure functions of values; thread-safe.
#include <cstdint>
#include <span>

namespace es::scheduler {

// On n > 0 devices of one type with capability c: max_p * c / ceil(max_p / n).
double one_type_speed(std::uint32_t max_p, std::uint32_t n, double c);

// The fewest devices, at most n > 0, that are as fast as n.
std::uint32_t useful_devices(std::uint32_t max_p, std::uint32_t n);

// On all types together: max_p / f for the smallest f with sum_i N_i * ests_within(f, C_i) >=
// max_p. 0 when there is no usable device.
double mixed_speed(std::uint32_t max_p, std::span<const std::uint32_t> counts,
                   std::span<const double> capabilities);

// Lowers the counts to a cover that is as fast, of as few devices as possible: fast types first.
void trim_to_speed(std::uint32_t max_p, double speed, std::span<std::uint32_t> counts,
                   std::span<const double> capabilities);

}  // namespace es::scheduler
