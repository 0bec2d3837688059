#include "gpu/base/peak.h"

#include <algorithm>
#include <ctime>

namespace es::gpu {
namespace {

// These sums are independent, and there are more of them than the multipliers hold at a time.
constexpr int kSums = 12;
constexpr int kSteps = 20000;

// This is assembly, because no file outside of gpu/canonical is compiled for these instruction
// sets. The sums are registers 0 to 11. The product is register 12 times itself, which is 0.
#define ES_FMA(op, width, sum) op " %%" width "12, %%" width "12, %%" width sum "\n\t"
#define ES_RUN(op, width) \
  asm volatile("vpxor %%xmm12, %%xmm12, %%xmm12\n\t"                                         \
               "1:\n\t" ES_FMA(op, width, "0") ES_FMA(op, width, "1") ES_FMA(op, width, "2") \
               ES_FMA(op, width, "3") ES_FMA(op, width, "4") ES_FMA(op, width, "5")          \
               ES_FMA(op, width, "6") ES_FMA(op, width, "7") ES_FMA(op, width, "8")          \
               ES_FMA(op, width, "9") ES_FMA(op, width, "10") ES_FMA(op, width, "11")        \
               "dec %0\n\t"                                                                  \
               "jnz 1b\n\t"                                                                  \
               : "+r"(steps)                                                                 \
               :                                                                             \
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",     \
                 "xmm9", "xmm10", "xmm11", "xmm12", "cc")

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Runs the loop. Returns the number of lanes of a vector of the class.
int run(CpuClass cpu_class) {
  int steps = kSteps;
  switch (cpu_class) {
    case CpuClass::kScalar:
      ES_RUN("vfmadd231ss", "xmm");
      return 1;
    case CpuClass::kAvx2:
      ES_RUN("vfmadd231ps", "ymm");
      return 8;
    case CpuClass::kAvx512:
      ES_RUN("vfmadd231ps", "zmm");
      return 16;
  }
  return 1;
}

}  // namespace

double peak_gflops(CpuClass cpu_class) {
  double best = 0;
  for (int repeat = 0; repeat < 50; ++repeat) {
    const double start = thread_seconds();
    const int lanes = run(cpu_class);
    best = std::max(best, 2e-9 * kSums * kSteps * lanes / (thread_seconds() - start));
  }
  return best;
}

}  // namespace es::gpu
