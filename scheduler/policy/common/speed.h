#pragma once
// The speed of a job on given devices by the model of model.h, fast enough to be computed thousands
// of times in one decision. Types are indices 0 .. T-1 into spans of equal length:
//
//   counts[i]        N_i, devices of type i
//   capabilities[i]  C_i, local steps per second of one of them; 0 if the job cannot use the type
//   sync             what the job is known to lose by communication (model/sync.h)
//
// Speeds are in local steps per second: the throughput of the best plan that uses no more devices
// than the counts. Pure functions of values; thread-safe.
#include <cstdint>
#include <span>

#include "scheduler/model/sync.h"

namespace es::scheduler {

inline const SyncCurve kNoSync{};

// The speed on up to n > 0 devices of one type with capability c: max_p * c / ceil(max_p / n). With
// communication the largest of max_p / (ceil(max_p / k) / c + sync(k)) for k <= n.
double one_type_speed(std::uint32_t max_p, std::uint32_t n, double c,
                      const SyncCurve& sync = kNoSync);

// The smallest number of devices, at most n > 0, that is as fast as n.
std::uint32_t useful_devices(std::uint32_t max_p, std::uint32_t n);
std::uint32_t useful_devices(std::uint32_t max_p, std::uint32_t n, double c, const SyncCurve& sync);

// The speed on all types together: max_p / f for the smallest f with sum_i N_i * ests_within(f,
// C_i) >= max_p. With communication the largest of max_p / (f_m + sync(m)) over all numbers m of
// devices, where f_m is that of the m fastest ones. 0 if no device can be used.
double mixed_speed(std::uint32_t max_p, std::span<const std::uint32_t> counts,
                   std::span<const double> capabilities, const SyncCurve& sync = kNoSync);

// Lowers the counts to a cover with the same speed and as few devices as possible; fast types are
// used first. REQUIRES: `speed` is their mixed_speed().
void trim_to_speed(std::uint32_t max_p, double speed, std::span<std::uint32_t> counts,
                   std::span<const double> capabilities, const SyncCurve& sync = kNoSync);

// Keeps the `most` fastest devices, or all if there are no more. Of equally fast types the first
// one is kept.
void keep_fastest(std::uint32_t most, std::span<std::uint32_t> counts,
                  std::span<const double> capabilities);

}  // namespace es::scheduler
