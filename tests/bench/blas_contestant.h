#pragma once
#include <cstdint>
#include <functional>

namespace es::bench {

// OpenBLAS: C[m][n] = A[m][k] * B on its own buffers, B [k][n], or [n][k] when `b_transposed`.
// Empty when the benchmark was built without OpenBLAS.
std::function<void()> blas_gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed);

}  // namespace es::bench
