#include "gpu/params/buckets.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::gpu {

std::vector<Bucket> cut_buckets(const ParamTable& table, std::int64_t target_floats) {
  ES_CHECK(target_floats > 0);
  std::vector<Bucket> buckets;
  Bucket open{table.trained_floats(), table.trained_floats()};
  // Parameters are visited from the last to the first, the order in which their gradients appear.
  const std::span<const ParamInfo> params = table.trained();
  for (auto p = params.rbegin(); p != params.rend(); ++p) {
    // The bucket is closed before it becomes too large, but never empty: a parameter that alone
    // exceeds the target gets a bucket of its own.
    if (open.floats() > 0 && open.end - p->offset > target_floats) {
      buckets.push_back(open);
      open.end = open.begin;
    }
    open.begin = p->offset;
  }
  if (open.floats() > 0) buckets.push_back(open);
  return buckets;
}

std::uint32_t bucket_of(std::span<const Bucket> buckets, const ParamInfo& param) {
  for (std::uint32_t b = 0; b < buckets.size(); ++b)
    if (buckets[b].begin <= param.offset && param.offset < buckets[b].end) return b;
  ES_CHECK_MSG(false, "no bucket holds " + param.name);
}

ParamRange params_of(const ParamTable& table, const FloatRange& range) {
  const std::span<const ParamInfo> params = table.trained();
  const auto first_from = [&](std::int64_t offset) {
    return static_cast<std::size_t>(
        std::ranges::lower_bound(params, offset, {}, &ParamInfo::offset) - params.begin());
  };
  return {first_from(range.begin), first_from(range.end)};
}

ParamRange params_of(const ParamTable& table, const Bucket& bucket) {
  return params_of(table, FloatRange{bucket.begin, bucket.end});
}

std::vector<FloatRange> ranges_of(std::span<const Bucket> buckets, const std::vector<bool>& held) {
  ES_CHECK(held.size() == buckets.size());
  std::vector<FloatRange> ranges;
  // The last bucket has the first floats, and there is no gap between two buckets.
  for (std::size_t b = buckets.size(); b-- > 0;) {
    if (!held[b]) continue;
    if (!ranges.empty() && ranges.back().end == buckets[b].begin)
      ranges.back().end = buckets[b].end;
    else
      ranges.push_back({buckets[b].begin, buckets[b].end});
  }
  return ranges;
}

}  // namespace es::gpu
