#include "gpu/optim/update.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

// 2 KiB of each array. A block of the gradient is read twice, so it should stay in the first-level
// cache together with what the processor prefetches of all arrays. With 8 KiB, an update of one
// thread takes 1.2 times as long on a core with 48 KiB.
constexpr std::int64_t kUpdateFloats = 512;
// Of a captured optimizer: each call of its code fills the registers with constants first.
constexpr std::int64_t kCapturedFloats = 4096;

}  // namespace

const float* ReducedGradient::of(const ParamInfo& param) const {
  // A parameter never extends over two buckets (cut_buckets), so its floats are contiguous.
  const std::uint32_t bucket = bucket_of(buckets, param);
  if (sums[bucket] == nullptr) return nullptr;
  return sums[bucket] + (param.offset - buckets[bucket].begin);
}

void sums_of_squares(const ReducedGradient& gradient, const ParamRange& range,
                     const KernelTable& kernels, Parallel& parallel, std::span<float> by_param) {
  const std::span<const ParamInfo> params =
      gradient.table.trained().subspan(range.begin, range.size());
  ES_CHECK(by_param.size() == params.size());
  // Each parameter is summed by one thread. So the number of threads changes no bit.
  parallel.for_range(
      static_cast<std::int64_t>(params.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          by_param[i] = kernels.sum_of_squares(params[i].count, gradient.of(params[i]));
      });
}

bool update_params(const ReducedGradient& gradient, const Optimizer& optimizer,
                   const UpdateStep& step, const KernelTable& kernels, Parallel& parallel,
                   Replica& replica) {
  ES_CHECK(replica.moments.size() == optimizer.moment_count());
  const std::int64_t block = optimizer.is_captured() ? kCapturedFloats : kUpdateFloats;
  std::atomic<bool> finite{true};
  for (std::size_t b = 0; b < gradient.buckets.size() && finite; ++b) {
    const Bucket bucket = gradient.buckets[b];
    const float* const sums = gradient.sums[b];
    if (sums == nullptr) continue;
    const auto update_block = [&](std::int64_t begin, std::int64_t floats) {
      // The check loads the block into the cache, so the update reads it from there.
      if (kernels.any_non_finite(floats, sums + begin)) return false;
      const auto update_run = [&](const GroupRun& run) {
        std::array<float*, kMomentsMax> moments{};
        for (std::size_t m = 0; m < replica.moments.size(); ++m)
          moments[m] = replica.moments[m].data() + run.begin;
        optimizer.apply(step, run, kernels, sums + (run.begin - bucket.begin),
                        replica.params.data() + run.begin, moments.data());
      };
      // A block may contain parameters of several groups, which have different learning rates or
      // scales. Each run of one group is updated by a call of its own.
      const std::int64_t at = bucket.begin + begin;
      visit_runs(optimizer.runs(), at, at + floats, update_run);
      return true;
    };
    // An update is element-wise, so the division among threads changes no bit. After a value that
    // is not finite the other threads stop early, because the caller gives the replica up.
    parallel.for_range(bucket.floats(), block, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end && finite; begin += block)
        if (!update_block(begin, std::min(block, end - begin))) finite = false;
    });
  }
  return finite;
}

std::string first_non_finite(const ReducedGradient& gradient, const KernelTable& kernels) {
  for (const ParamInfo& p : gradient.table.trained()) {
    const float* const sum = gradient.of(p);
    if (sum != nullptr && kernels.any_non_finite(p.count, sum)) return p.name;
  }
  return {};
}

std::string first_non_finite(std::span<const ParamInfo> params, const float* flat,
                             const KernelTable& kernels) {
  for (const ParamInfo& p : params)
    if (kernels.any_non_finite(p.count, flat + p.offset)) return p.name;
  return {};
}

}  // namespace es::gpu
