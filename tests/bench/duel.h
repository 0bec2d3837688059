#pragma once
// Two contestants are timed alternately in one process, so that a slow time of the machine affects
// both.
#include <functional>
#include <string>

namespace es::bench {

struct Duel {
  double vendor_us = 0;  // Medians of one call.
  double ours_us = 0;
  // Statistics of the ratios vendor / ours of neighbouring samples. A ratio above 1 means that ours
  // is faster.
  double ratio = 0;                      // The median.
  double ratio_low = 0, ratio_high = 0;  // The tenth and the ninetieth percentile.
};

// Runs both alternately for about `seconds`, with at least nine samples of each.
Duel duel(const std::function<void()>& vendor, const std::function<void()>& ours, double seconds);

// Processor time of this thread in seconds.
double thread_seconds();

// Pins the process to the processor on which it runs.
void pin_to_one_processor();

// Model name of the processor.
std::string processor_name();

}  // namespace es::bench
