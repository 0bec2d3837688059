#include "gpu/graph/weight_init.h"

#include <cmath>

namespace es::gpu {
namespace {

// IEEE-754 rounds square roots and divisions exactly, so a bound has the same bits on every
// machine.
ParamInit uniform(double bound) {
  return {.bound = static_cast<float>(bound)};
}

}  // namespace

ParamInit weight_init(const WeightInit& init, std::int64_t fan_in, std::int64_t fan_out) {
  switch (init.kind) {
    case WeightInit::Kind::kPytorchDefault:
      return uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
    case WeightInit::Kind::kFanOutRelu:
      return uniform(std::sqrt(6.0 / static_cast<double>(fan_out)));
    case WeightInit::Kind::kXavier:
      return uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
    case WeightInit::Kind::kDeviation:
      return uniform(init.deviation * std::sqrt(3.0));
  }
  return {};
}

ParamInit bias_init(const WeightInit& init, std::int64_t fan_in) {
  return init.kind == WeightInit::Kind::kPytorchDefault ? weight_init(init, fan_in, 0)
                                                        : ParamInit{};
}

ParamInit embedding_init(const WeightInit& init, std::int64_t rows, std::int64_t out) {
  if (init.kind == WeightInit::Kind::kPytorchDefault) return uniform(std::sqrt(3.0));
  return weight_init(init, out, rows);
}

}  // namespace es::gpu
