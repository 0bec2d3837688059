#include "gpu/onednn/preference.h"

#include <doctest/doctest.h>

#include <set>

namespace es::gpu {
namespace {

// Passes of a convolution that a vendor kernel runs on a class.
std::set<ConvPass> preferred(CpuClass cpu_class, const ConvShape& shape) {
  std::set<ConvPass> passes;
  for (const ConvPass pass :
       {ConvPass::kForward, ConvPass::kDataGradient, ConvPass::kWeightGradient})
    if (onednn_preferred(cpu_class, shape, pass)) passes.insert(pass);
  return passes;
}

using Passes = std::set<ConvPass>;
constexpr CpuClass kVectorClasses[] = {CpuClass::kAvx2, CpuClass::kAvx512};

}  // namespace

TEST_SUITE("gpu/onednn/preference") {
  TEST_CASE("first layers run there, except the gradient of the image, which is not needed") {
    for (const CpuClass c : kVectorClasses)
      for (const std::int64_t channels : {1, 3, 4})
        CHECK(preferred(c, {.n = 8,
                            .h = 32,
                            .w = 32,
                            .c = channels,
                            .oc = 64,
                            .kh = 7,
                            .kw = 7,
                            .stride = 2,
                            .pad = 3}) == Passes{ConvPass::kForward, ConvPass::kWeightGradient});
  }

  TEST_CASE("depthwise weight gradients run there, forward passes with AVX2 only") {
    const ConvShape depthwise{
        .n = 8, .h = 14, .w = 14, .c = 58, .oc = 58, .kh = 3, .kw = 3, .pad = 1, .groups = 58};
    CHECK(preferred(CpuClass::kAvx2, depthwise) ==
          Passes{ConvPass::kForward, ConvPass::kWeightGradient});
    CHECK(preferred(CpuClass::kAvx512, depthwise) == Passes{ConvPass::kWeightGradient});
  }

  TEST_CASE("of other convolutions, only the weight gradient of a 1x1 convolution with stride 2") {
    const ConvShape shortcut{.n = 8, .h = 14, .w = 14, .c = 64, .oc = 128, .stride = 2};
    ConvShape stride_1 = shortcut, kernel_3 = shortcut, grouped = shortcut;
    stride_1.stride = 1;
    kernel_3.kh = kernel_3.kw = 3;
    grouped.groups = 2;
    for (const CpuClass c : kVectorClasses) {
      CHECK(preferred(c, shortcut) == Passes{ConvPass::kWeightGradient});
      for (const ConvShape& shape : {stride_1, kernel_3, grouped})
        CHECK(preferred(c, shape).empty());
    }
  }

  TEST_CASE("matrix products stay canonical") {
    for (const CpuClass c : kVectorClasses)
      for (const std::int64_t size : {1, 64, 4096})
        CHECK_FALSE(onednn_preferred(
            c, GemmShape{
                   .m = size, .n = size, .k = size, .a_row = size, .b_row = size, .c_row = size}));
  }
}

}  // namespace es::gpu
