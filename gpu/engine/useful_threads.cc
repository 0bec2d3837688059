#include "gpu/engine/useful_threads.h"

#include <algorithm>
#include <vector>

#include "gpu/graph/op_flops.h"

namespace es::gpu {
namespace {

// Rough rates of one core, measured on a server with two cores: products with AVX-512, what other
// operators read and write, cache lines that the other core has written, and the division of one
// operator. A tensor that does not fit into the cache of a core comes from memory in any case.
constexpr double kFlopsPerSecond = 100e9;
constexpr double kBytesPerSecond = 40e9;
constexpr double kTransferBytesPerSecond = 6.6e9;
constexpr double kCacheBytes = 4 << 20;
constexpr double kDivisionSeconds = 1.5e-6;

double bytes_of(const Graph& step, const std::vector<TensorId>& tensors) {
  double floats = 0.0;
  for (const TensorId t : tensors) floats += double(step.shape(t).count());
  return floats * sizeof(float);
}

}  // namespace

std::uint32_t useful_threads(const Graph& step, std::uint32_t threads) {
  double read = 0.0, written = 0.0;
  for (const Op& op : step.ops) {
    read += bytes_of(step, op.in);
    written += bytes_of(step, op.out);
  }
  const double work = step_flops(step) / kFlopsPerSecond + (read + written) / kBytesPerSecond;
  const double transfers = std::min(written / 2, kCacheBytes) / kTransferBytesPerSecond;
  const double cost = transfers + double(step.ops.size()) * kDivisionSeconds;
  return work / 2 > cost ? threads : 1;
}

}  // namespace es::gpu
