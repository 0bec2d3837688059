#include "tests/bench/blas_contestant.h"

namespace es::bench {

std::function<void()> blas_gemm(std::int64_t, std::int64_t, std::int64_t, bool) {
  return {};
}

}  // namespace es::bench
