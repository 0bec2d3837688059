#include "tests/bench/floors.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <limits>

#include "gpu/base/aligned_buffer.h"
#include "gpu/base/parallel.h"
#include "gpu/base/peak.h"
#include "tests/bench/op_profile.h"

namespace es::bench {
namespace {

constexpr double kMeasured = 0.1;  // Seconds for each level.

// The largest bandwidth of copies whose two sides have `bytes` together, the same number for each
// thread.
double copied_gb_per_s(gpu::Parallel& parallel, int threads, double bytes) {
  const auto floats = static_cast<std::int64_t>(bytes / (2.0 * sizeof(float) * threads)) & ~63;
  gpu::AlignedBuffer from(floats * threads), to(floats * threads);
  // A copy of a cache takes less time than the start of the threads.
  const int times = static_cast<int>(std::max(1.0, 64e6 / bytes));
  double best = 0.0;
  const double end = seconds_of(CLOCK_MONOTONIC) + kMeasured;
  do {
    const double begin = seconds_of(CLOCK_MONOTONIC);
    parallel.run(threads, [&](int part) {
      for (int i = 0; i < times; ++i)
        std::memcpy(to.data() + part * floats, from.data() + part * floats,
                    sizeof(float) * static_cast<std::size_t>(floats));
    });
    const double copied = 2.0 * sizeof(float) * double(floats) * threads * times;
    best = std::max(best, 1e-9 * copied / (seconds_of(CLOCK_MONOTONIC) - begin));
  } while (seconds_of(CLOCK_MONOTONIC) < end);
  return best;
}

}  // namespace

Floors::Floors(CpuClass cpu_class, std::uint32_t threads)
    : gflops_(gpu::peak_gflops(cpu_class) * threads) {
  const int count = static_cast<int>(threads);
  gpu::Parallel parallel(threads);
  const auto add = [&](const char* name, long cache, int copies) {
    if (cache <= 0) return;  // The system does not say.
    const double bytes = double(cache) * copies;
    levels_.push_back({name, bytes, copied_gb_per_s(parallel, count, bytes / 2)});
  };
  add("L1", sysconf(_SC_LEVEL1_DCACHE_SIZE), count);
  add("L2", sysconf(_SC_LEVEL2_CACHE_SIZE), count);
  add("L3", sysconf(_SC_LEVEL3_CACHE_SIZE), 1);
  constexpr double kLarge = 256 << 20;
  levels_.push_back({"memory", std::numeric_limits<double>::infinity(),
                     copied_gb_per_s(parallel, count, kLarge)});
}

Floor Floors::of(double flops, double bytes) const {
  const auto level = std::find_if(levels_.begin(), levels_.end(),
                                  [&](const MemoryLevel& l) { return bytes <= l.bytes; });
  const Floor computed{1e-9 * flops / gflops_, "compute"};
  const Floor moved{1e-9 * bytes / level->gb_per_s, level->name};
  return computed.seconds > moved.seconds ? computed : moved;
}

}  // namespace es::bench
