#include "actors/sim/core/mishaps.h"

#include "proto/base/check.h"

namespace es::actors::simulator {

// All subjects together have mishaps `subjects` times as often as one of them. So one series of
// exponential intervals is enough, and next() draws which subject is hit.
Mishaps::Mishaps(std::uint64_t seed, double mean_s, std::size_t subjects)
    : random_(seed), mean_s_(mean_s / static_cast<double>(subjects)), subjects_(subjects) {
  ES_CHECK(mean_s > 0 && subjects > 0);
}

double Mishaps::unit() {
  return static_cast<double>(random_() >> 11) * 0x1p-53;
}

// Von Neumann's method, which needs only comparisons; the last bits of a logarithm differ between
// libraries. It draws uniform numbers as long as they fall. The run that begins with x has an odd
// length with probability exp(-x). If the length is even, 1 is added and the method is repeated.
double Mishaps::exponential() {
  for (double whole = 0;; ++whole) {
    const double first = unit();
    bool odd = true;
    double last = first;
    for (double next = unit(); next < last; next = unit()) {
      last = next;
      odd = !odd;
    }
    if (odd) return whole + first;
  }
}

Mishaps::Mishap Mishaps::next() {
  const double after_s = mean_s_ * exponential();
  return {after_s, static_cast<std::size_t>(random_() % subjects_)};
}

}  // namespace es::actors::simulator
