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
      // PyTorch's kaiming_uniform with a = sqrt(5): sqrt(6 / ((1 + 5) fan_in)).
      return uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
    case WeightInit::Kind::kFanOutRelu:
      // The normal distribution that torchvision draws from has the variance 2 / fan_out, and a
      // uniform one has bound^2 / 3.
      return uniform(std::sqrt(6.0 / static_cast<double>(fan_out)));
    case WeightInit::Kind::kXavier:
      return uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
    case WeightInit::Kind::kDeviation:
      // A uniform distribution in [-b, b] has the deviation b / sqrt(3).
      return uniform(init.deviation * std::sqrt(3.0));
  }
  return {};
}

ParamInit bias_init(const WeightInit& init, std::int64_t fan_in) {
  return init.kind == WeightInit::Kind::kPytorchDefault ? weight_init(init, fan_in, 0)
                                                        : ParamInit{};
}

ParamInit embedding_init(const WeightInit& init, std::int64_t rows, std::int64_t out) {
  // PyTorch draws embeddings from a normal distribution with deviation 1.
  if (init.kind == WeightInit::Kind::kPytorchDefault) return uniform(std::sqrt(3.0));
  // A table is [rows][out], so its columns are the fan in.
  return weight_init(init, out, rows);
}

}  // namespace es::gpu
