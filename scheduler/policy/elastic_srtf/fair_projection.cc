#include "scheduler/policy/elastic_srtf/fair_projection.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace es::scheduler {
namespace {

constexpr int kSteps = 64;
constexpr double kFirstStepS = 30;
constexpr double kStepGrowth = 1.2;

struct Sharing {
  std::size_t task;
  double width;
  double left_s;      // with equal shares, in seconds of its best speed
  double own_left_s;  // with `shares` shares; 0 once it has ended
};

// In units of 2^-20 s: a sum of integers does not depend on the order of the tasks.
std::int64_t ticks(double seconds) {
  return std::llround(std::ldexp(seconds, 20));
}

}  // namespace

std::vector<SharedEnd> project_shared_ends(std::span<const SharingTask> tasks, double shares) {
  std::vector<SharedEnd> ends(tasks.size());
  std::vector<Sharing> sharing;
  sharing.reserve(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (tasks[i].alone_s > 0)
      sharing.push_back({i, tasks[i].width, tasks[i].alone_s, tasks[i].alone_s});
  double now_s = 0, job_s = 0, step_s = kFirstStepS;
  for (int k = 0; k < kSteps && !sharing.empty(); ++k, step_s *= kStepGrowth) {
    const auto n = static_cast<double>(sharing.size());
    const bool is_last = k + 1 == kSteps;
    const std::int64_t step_ticks = ticks(step_s);
    std::int64_t lived = 0;
    std::size_t kept = 0;
    for (const Sharing& was : sharing) {
      Sharing one = was;
      const double crowd = n * one.width;
      if (one.own_left_s > 0) {
        const double own_s = one.own_left_s / std::min(1.0, shares / crowd);
        if (own_s <= step_s || is_last) ends[one.task] = {now_s + own_s, job_s + n * own_s};
        one.own_left_s -= one.own_left_s * std::min(1.0, step_s / std::max(own_s, 1e-9));
      }
      const double speed = std::min(1.0, 1 / crowd);
      const double done_s = speed * step_s;
      // Most tasks live longer than the step, which is known without a division.
      const bool lives_on = one.left_s > 1.000001 * done_s;
      lived += lives_on ? step_ticks : ticks(std::min(step_s, one.left_s / speed));
      one.left_s -= done_s;
      if (one.left_s > 0) sharing[kept++] = one;
    }
    sharing.resize(kept);
    now_s += step_s;
    job_s += std::ldexp(static_cast<double>(lived), -20);
  }
  return ends;
}

}  // namespace es::scheduler
