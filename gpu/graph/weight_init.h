#pragma once
// Initial weights. All are uniform, because the normal numbers of a mathematical library differ
// between machines. Their variance is the one that the model publishes.
#include <cstdint>

#include "gpu/params/param_table.h"

namespace es::gpu {

struct WeightInit {
  enum class Kind {
    // kaiming_uniform(a=sqrt(5)): bound 1/sqrt(fan_in); biases alike. Embeddings: deviation 1
    kPytorchDefault,
    kFanOutRelu,  // torchvision's kaiming_normal(fan_out, relu): bound sqrt(6/fan_out); biases 0
    kXavier,      // xavier_uniform: bound sqrt(6/(fan_in+fan_out)); biases 0
    kDeviation,   // normal(0, deviation) becomes uniform with bound deviation*sqrt(3); biases 0
  };
  Kind kind = Kind::kPytorchDefault;
  double deviation = 0.0;
};

// The fans are counted as in PyTorch: columns and rows of the weight, times the taps of the kernel.
ParamInit weight_init(const WeightInit& init, std::int64_t fan_in, std::int64_t fan_out);
ParamInit bias_init(const WeightInit& init, std::int64_t fan_in);
ParamInit embedding_init(const WeightInit& init, std::int64_t rows, std::int64_t out);

}  // namespace es::gpu
