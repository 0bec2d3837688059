#pragma once
// The speed of a job on given devices by the model of model.h, fast enough to be computed thousands
// of times in one decision. Types are indices 0 .. T-1 into spans of equal length:
//
//   counts[i]        N_i, devices of type i
//   capabilities[i]  C_i, local steps per second of one of them; 0 if the job cannot use the type
//
// Speeds are in local steps per second: the throughput of the best plan that uses no more devices
// than the counts. Pure functions of values; thread-safe.
#include <cstdint>
#include <span>

namespace es::scheduler {

// The speed on n > 0 devices of one type with capability c: max_p * c / ceil(max_p / n).
double one_type_speed(std::uint32_t max_p, std::uint32_t n, double c);

// The smallest number of devices, at most n > 0, that is as fast as n.
std::uint32_t useful_devices(std::uint32_t max_p, std::uint32_t n);

// The speed on all types together: max_p / f for the smallest f with sum_i N_i * ests_within(f,
// C_i) >= max_p. 0 if no device can be used.
double mixed_speed(std::uint32_t max_p, std::span<const std::uint32_t> counts,
                   std::span<const double> capabilities);

// Lowers the counts to a cover with the same speed and as few devices as possible; fast types are
// used first.
void trim_to_speed(std::uint32_t max_p, double speed, std::span<std::uint32_t> counts,
                   std::span<const double> capabilities);

}  // namespace es::scheduler
