#pragma once
// How weights start. All are uniform (libm's normal numbers differ by machine), with the variance
// of what the model publishes.
#include <cstdint>

#include "gpu/params/param_table.h"

namespace es::gpu {

struct WeightInit {
  enum class Kind {
    kPytorchDefault,  // kaiming_uniform(a=sqrt(5)): bound 1/sqrt(fan_in); biases alike. Embeddings:
                      // deviation 1
    kFanOutRelu,  // torchvision's kaiming_normal(fan_out, relu): bound sqrt(6/fan_out); biases 0
    kXavier,      // xavier_uniform: bound sqrt(6/(fan_in+fan_out)); biases 0
    kDeviation,   // normal(0, deviation): bound deviation*sqrt(3); biases 0
  };
  Kind kind = Kind::kPytorchDefault;
  double deviation = 0.0;
};

// Fans as PyTorch counts them: columns and rows of the weight, times the kernel's taps.
ParamInit weight_init(const WeightInit& init, std::int64_t fan_in, std::int64_t fan_out);
ParamInit bias_init(const WeightInit& init, std::int64_t fan_in);
ParamInit embedding_init(const WeightInit& init, std::int64_t rows, std::int64_t out);

}  // namespace es::gpu
