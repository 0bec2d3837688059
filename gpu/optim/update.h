#pragma once
// One update of all parameters from summed gradients: clipping, then the optimizer, in one pass.
#include <cstdint>
#include <span>
#include <string>

#include "gpu/optim/optimizer.h"
#include "gpu/parallel.h"
#include "gpu/params/buckets.h"
#include "gpu/replica.h"

namespace es::gpu {

// A gradient as it is reduced: bucket b's floats, summed over all ranks, begin at sums[b].
struct ReducedGradient {
  const ParamTable& table;
  std::span<const Bucket> buckets;
  std::span<const float* const> sums;

  const float* of(const ParamInfo& param) const;
};

// (v0 + v1) + v2 ... from +0.
float chained(std::span<const float> values);

// Sum of the squares of all parameters' sums: per parameter SUM64, then one chain of adds over them
// in table order. Infinite or NaN when an element is (or when a square is too large).
float sum_of_squares(const ReducedGradient& gradient, const KernelTable& kernels,
                     Parallel& parallel, std::span<float> by_param);

// Updates parameters and moments in place, in blocks that stay in the cache while a block's
// gradient is checked and then used. False: an element of the gradient is not finite; the
// parameters before it, and with helpers some after it, are updated already.
bool update_params(const ReducedGradient& gradient, const Optimizer& optimizer,
                   const UpdateStep& step, const KernelTable& kernels, Parallel& parallel,
                   Replica& replica);

// Name of the first parameter whose values are not finite; empty when there is none.
std::string first_non_finite(const ReducedGradient& gradient, const KernelTable& kernels);
std::string first_non_finite(const ParamTable& table, const float* flat,
                             const KernelTable& kernels);

}  // namespace es::gpu
