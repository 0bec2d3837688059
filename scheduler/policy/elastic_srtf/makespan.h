#pragma once
// Changes the order of service so that all present jobs end in time: condition (1) of
// elastic_srtf.h. Pure functions of values; thread-safe.
#include <cstddef>
#include <vector>

#include "scheduler/policy/elastic_srtf/service_order.h"

namespace es::scheduler {

// Part of the horizon by which the end of all jobs may be later. With 0 the mean completion time is
// 1.2 % longer and the makespan the same; 0.06 changes neither by more than 0.2 %.
inline constexpr double kMakespanSlack = 0.03;

// The order is that of the ServiceOrder up to the position `end`, followed by `moved`.
struct TimelyOrder {
  std::size_t end = 0;
  std::vector<QueueEntry> moved;
  // If the order alone does not suffice, the job moved[guaranteed] is guaranteed this part of the
  // devices that it can use. 0 if no job is guaranteed anything.
  double guaranteed_part = 0;
  std::size_t guaranteed = 0;
};

// `order` is arranged as of this time. Jobs that come first by priority, by a deadline or because
// they have aged keep their places.
TimelyOrder order_in_time(const ServiceOrder& order, double now_s);

// The position of the first job that may be moved, or before which another one may be moved.
std::size_t first_movable(const ServiceOrder& order);

}  // namespace es::scheduler
