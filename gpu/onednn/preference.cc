#include "gpu/onednn/preference.h"

#include "gpu/canonical/shapes.h"

namespace es::gpu {

// Measured on an Emerald Rapids core, operator by operator in the nine workloads of `scripts/bench
// train`: oneDNN 2.6.3 needs 0.4-0.9 of the time of the canonical kernels for first layers, 0.7-0.9
// for weight gradients of depthwise convolutions and of 1x1 convolutions with stride 2, and with
// AVX2 0.7-0.85 for depthwise forward passes. Everywhere else the canonical kernels are as fast or
// faster.
bool onednn_preferred(CpuClass cpu_class, const ConvShape& s, ConvPass pass) {
  constexpr std::int64_t kFirstLayerChannels = 4;  // images have 1, 3 or 4 channels
  if (s.groups == 1 && s.c <= kFirstLayerChannels) return pass != ConvPass::kDataGradient;
  if (is_depthwise(s))
    return pass == ConvPass::kWeightGradient ||
           (pass == ConvPass::kForward && cpu_class == CpuClass::kAvx2);
  return s.groups == 1 && s.kh == 1 && s.kw == 1 && s.stride == 2 &&
         pass == ConvPass::kWeightGradient;
}

// No product prefers oneDNN: in measurements of 40 shapes, no rule described a class of
// shapes for which it is 10 % faster.
bool onednn_preferred(CpuClass, const GemmShape&) {
  return false;
}

}  // namespace es::gpu
