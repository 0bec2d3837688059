#pragma once
// Updates all parameters from summed gradients: clipping, then the optimizer, in one pass.
#include <cstdint>
#include <span>
#include <string>

#include "gpu/base/parallel.h"
#include "gpu/optim/optimizer.h"
#include "gpu/optim/replica.h"
#include "gpu/params/buckets.h"

namespace es::gpu {

// A gradient in its reduced form: the floats of bucket b, summed over all ranks, begin at sums[b].
// nullptr: the sum is not here, and another worker updates the bucket.
struct ReducedGradient {
  const ParamTable& table;
  std::span<const Bucket> buckets;
  std::span<const float* const> sums;

  // nullptr: as above.
  const float* of(const ParamInfo& param) const;
};

// Writes the sum of the squares of the summed gradient of each of these parameters, in table order:
// SUM64. It is infinite or NaN if an element is, or if a square is too large. REQUIRES: their sums
// are here.
void sums_of_squares(const ReducedGradient& gradient, const ParamRange& params,
                     const KernelTable& kernels, Parallel& parallel, std::span<float> by_param);

// Updates the parameters and moments of the buckets whose sums are here in place, in blocks that
// stay in the cache while the gradient of the block is checked and then used. Returns false if an
// element of the gradient is not finite. The parameters before that element, and with helper
// threads some after it, are then already updated. REQUIRES: the replica holds the moments of these
// buckets.
bool update_params(const ReducedGradient& gradient, const Optimizer& optimizer,
                   const UpdateStep& step, const KernelTable& kernels, Parallel& parallel,
                   Replica& replica);

// Returns the name of the first parameter whose values are not finite; empty if there is none. Of a
// gradient, the sums that are here are searched.
std::string first_non_finite(const ReducedGradient& gradient, const KernelTable& kernels);
std::string first_non_finite(std::span<const ParamInfo> params, const float* flat,
                             const KernelTable& kernels);

}  // namespace es::gpu
