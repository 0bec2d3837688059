#include "gpu/params/initialise.h"

#include <algorithm>
#include <cmath>

#include "proto/base/philox.h"

namespace es::gpu {
namespace {

// The number of this use of Philox (proto/base/philox.h), a part of the counter of its stream:
// philox.h says which counters it can share with dropout.
constexpr std::uint32_t kParameterStream = 1;

void initialise_param(const ParamInfo& param, std::uint32_t index, PhiloxKey key, float* values) {
  if (param.init.bound == 0.0F) {
    std::fill(values, values + param.count, param.init.constant);
    return;
  }
  // Four elements take the four words of one counter. The counter names the parameter and the
  // elements, so every value is independent of the order in which they are computed.
  for (std::int64_t e = 0; e < param.count; e += 4) {
    const PhiloxCounter words =
        philox4x32_10({static_cast<std::uint32_t>(e / 4), index, kParameterStream, 0}, key);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(4, param.count - e); ++i) {
      const float centred =
          2.0F * uniform_float(words[static_cast<std::size_t>(i)]) - 1.0F;  // exact in fp32
      values[e + i] = std::fma(param.init.bound, centred, param.init.constant);
    }
  }
}

}  // namespace

void initialise_params(const ParamTable& table, std::uint64_t seed, float* flat) {
  // This sets the padding, too, to +0. Digests read it.
  std::fill(flat, flat + table.total_floats(), 0.0F);
  for (std::uint32_t i = 0; i < table.params().size(); ++i) {
    const ParamInfo& param = table.params()[i];
    initialise_param(param, i, philox_key(seed), flat + param.offset);
  }
}

std::vector<float> initial_stats(const ParamTable& table) {
  std::vector<float> stats(static_cast<std::size_t>(table.stat_floats()));
  for (const StatInfo& s : table.stats()) std::fill_n(stats.begin() + s.offset, s.count, s.initial);
  return stats;
}

}  // namespace es::gpu
