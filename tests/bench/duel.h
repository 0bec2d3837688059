#pragma once
// Two contestants timed alternately in one process, so that a slow moment of the machine hits both.
#include <functional>
#include <string>

namespace es::bench {

struct Duel {
  double vendor_us = 0;  // medians of one call
  double ours_us = 0;
  // Of the ratios vendor / ours of neighbouring samples: above 1 means that ours is faster.
  double ratio = 0;                      // median
  double ratio_low = 0, ratio_high = 0;  // tenth and ninetieth percentile
};

// Runs both for about `seconds` together, at least nine samples of each.
Duel duel(const std::function<void()>& vendor, const std::function<void()>& ours, double seconds);

// Processor time of this thread, seconds.
double thread_seconds();

// Pins the process to the processor it runs on.
void pin_to_one_processor();

// Model name of the processor.
std::string processor_name();

}  // namespace es::bench
