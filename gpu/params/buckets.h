#pragma once
// Buckets: the units in which gradients are reduced between workers.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/base/held_array.h"
#include "gpu/params/param_table.h"

namespace es::gpu {

// The floats [begin, end) of the flat layout. Both ends are boundaries of parameters.
struct Bucket {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t floats() const { return end - begin; }
  bool operator==(const Bucket&) const = default;
};

// The target size of a bucket in bytes. All members of a job must cut by the same size, because a
// bucket is addressed by its index.
inline constexpr std::int64_t kBucketBytes = std::int64_t{4} << 20;

// Cuts the flat layout from its end: bucket 0 holds the last parameters, whose gradients the
// backward pass produces first. A bucket is closed before a parameter that would make it larger
// than target_floats. So a bucket is larger only if it holds a single parameter that is larger
// itself. Together the buckets cover [0, trained_floats) exactly once. Pure function. The result of
// a reduction does not depend on the cut. REQUIRES: target_floats > 0.
std::vector<Bucket> cut_buckets(const ParamTable& table, std::int64_t target_floats);

// Returns the index of the bucket that holds the parameter.
std::uint32_t bucket_of(std::span<const Bucket> buckets, const ParamInfo& param);

// The parameters with the indices [begin, end) of ParamTable::trained().
struct ParamRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const ParamRange&) const = default;
};

// Returns the parameters whose floats are those of a range. REQUIRES: its ends are boundaries of
// parameters, as those of a bucket are.
ParamRange params_of(const ParamTable& table, const FloatRange& range);
ParamRange params_of(const ParamTable& table, const Bucket& bucket);

// Returns the floats of the buckets b with held[b] as HeldArray::held(). REQUIRES: the buckets
// are those of cut_buckets(), and `held` has one entry for each.
std::vector<FloatRange> ranges_of(std::span<const Bucket> buckets, const std::vector<bool>& held);

}  // namespace es::gpu
