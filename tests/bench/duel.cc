#include "tests/bench/duel.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <vector>

namespace es::bench {
namespace {

double time_us(const std::function<void()>& call, int repeats) {
  const double start = thread_seconds();
  for (int i = 0; i < repeats; ++i) call();
  return (thread_seconds() - start) * 1e6 / repeats;
}

double percentile(std::vector<double> values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * (values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

// Time of other processes on the machine does not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Duel duel(const std::function<void()>& vendor, const std::function<void()>& ours, double seconds) {
  constexpr double kSampleUs = 400;  // Long enough for the resolution of the clock.
  vendor();
  ours();
  const double once_us = std::max(time_us(vendor, 1), time_us(ours, 1));
  const int repeats = std::max(1, static_cast<int>(kSampleUs / std::max(once_us, 0.01)));
  std::vector<double> vendor_us, ours_us, ratios;
  const double start = thread_seconds();
  while (ratios.size() < 9 || thread_seconds() - start < seconds) {
    vendor_us.push_back(time_us(vendor, repeats));
    ours_us.push_back(time_us(ours, repeats));
    ratios.push_back(vendor_us.back() / ours_us.back());
  }
  return {percentile(vendor_us, 0.5), percentile(ours_us, 0.5), percentile(ratios, 0.5),
          percentile(ratios, 0.1), percentile(ratios, 0.9)};
}

void pin_to_one_processor() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(sched_getcpu(), &set);
  sched_setaffinity(0, sizeof set, &set);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace es::bench
