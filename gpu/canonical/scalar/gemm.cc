#include "gpu/canonical/scalar/dots.h"
#include "gpu/canonical/scalar/scalar.h"

namespace es::gpu::scalar {

std::size_t gemm_workspace_floats(const GemmShape& s) {
  if (s.arithmetic != Arithmetic::kFp32) return exact_workspace_floats(s);
  return static_cast<std::size_t>(s.b_stored == Factor::kF32 ? s.n : 2 * s.n);
}

void gemm(const GemmShape& s, const float* a, const float* b, const float* bias, float* c,
          float* ws) {
  if (s.arithmetic != Arithmetic::kFp32) return exact_gemm(s, a, b, bias, c, ws);
  float* const converted = ws + s.n;
  for (std::int64_t i = 0; i < s.m; ++i) {
    float* row = c + i * s.c_row;
    Dots dots(s.n, ws, row, s.c_col, s.add);
    for (std::int64_t k = 0; k < s.k; ++k) {
      const float left = read_number(s.a_stored, a, i * s.a_row + k * s.a_col);
      if (s.b_stored == Factor::kF32) {
        dots.step(left, b + k * s.b_row, s.b_col);
        continue;
      }
      for (std::int64_t j = 0; j < s.n; ++j)
        converted[j] = read_number(s.b_stored, b, k * s.b_row + j * s.b_col);
      dots.step(left, converted);
    }
    dots.finish();
    if (bias == nullptr) continue;
    for (std::int64_t j = 0; j < s.n; ++j) row[j * s.c_col] = row[j * s.c_col] + bias[j];
  }
}

void gemm_batched(const GemmShape& s, std::int64_t count, std::int64_t a_step, std::int64_t b_step,
                  std::int64_t c_step, const float* a, const float* b, float* c, float* ws) {
  for (std::int64_t i = 0; i < count; ++i) {
    gemm(s, number_at(s.a_stored, a, i * a_step), number_at(s.b_stored, b, i * b_step), nullptr,
         c + i * c_step, ws);
  }
}

}  // namespace es::gpu::scalar
