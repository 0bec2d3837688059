#include "tests/bench/blas_contestant.h"

#include <cblas.h>

#include <memory>

#include "tests/bench/floats.h"

namespace es::bench {

std::function<void()> blas_gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed) {
  const auto a = std::make_shared<Floats>(m * k), b = std::make_shared<Floats>(k * n);
  const auto c = std::make_shared<Floats>(m * n);
  const auto rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k);
  return [=] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans, rows,
                columns, depth, 1.0F, *a, depth, *b, b_transposed ? depth : columns, 0.0F, *c,
                columns);
  };
}

}  // namespace es::bench
