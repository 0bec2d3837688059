#pragma once
// Sixteen lanes of AVX-512. Included by lanes.h only.
#include <immintrin.h>

#include <cstdint>

namespace es::gpu {
namespace {

using Vec = __m512;
using Mask = __mmask16;
constexpr std::int64_t kWidth = 16;
// A register tile is kTileRows x 2 vectors: 28 of 32 registers hold sums.
constexpr int kTileRows = 14;

inline Vec zero() {
  return _mm512_setzero_ps();
}
inline Vec set(float x) {
  return _mm512_set1_ps(x);
}
inline Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}

inline Mask first_lanes(std::int64_t n) {
  return n >= kWidth ? Mask(0xffff) : Mask((1u << n) - 1);
}
inline Vec load(const float* p, Mask m) {
  return _mm512_maskz_loadu_ps(m, p);
}
inline void store(float* p, Vec v, Mask m) {
  _mm512_mask_storeu_ps(p, m, v);
}

inline Vec add(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
inline Vec sub(Vec a, Vec b) {
  return _mm512_sub_ps(a, b);
}
inline Vec mul(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
inline Vec div(Vec a, Vec b) {
  return _mm512_div_ps(a, b);
}
inline Vec root(Vec a) {
  return _mm512_sqrt_ps(a);
}
inline Vec fused(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Vec negate(Vec a) {
  return _mm512_castsi512_ps(
      _mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
}

// test > 0 ? v : +0
inline Vec keep_positive(Vec v, Vec test) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(test, zero(), _CMP_GT_OQ), v);
}
// best < v ? v : best. A NaN in v is never taken.
inline Vec larger_of(Vec best, Vec v) {
  return _mm512_max_ps(v, best);
}
// lowest when x < lowest, highest when highest < x, else x (also NaN).
inline Vec clamp(Vec x, Vec lowest, Vec highest) {
  return _mm512_max_ps(lowest, _mm512_min_ps(highest, x));
}
// p * 2^n rounded once, for an integer n in [-150, 128].
inline Vec times_power_of_two(Vec p, Vec n) {
  return _mm512_scalef_ps(p, n);
}

// Lanes of small integers beside a Vec.
using IntVec = __m512i;
inline IntVec set_int(std::int32_t x) {
  return _mm512_set1_epi32(x);
}
// best < v ? then : otherwise
inline IntVec select_if_less(Vec best, Vec v, IntVec then, IntVec otherwise) {
  return _mm512_mask_mov_epi32(otherwise, _mm512_cmp_ps_mask(best, v, _CMP_LT_OQ), then);
}
// index == wanted ? v : +0
inline Vec keep_if_equal(Vec v, IntVec index, IntVec wanted) {
  return _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(index, wanted), v);
}
inline void store_ints(std::int32_t* p, IntVec v) {
  _mm512_storeu_si512(p, v);
}
inline IntVec load_ints(const std::int32_t* p) {
  return _mm512_loadu_si512(p);
}

}  // namespace
}  // namespace es::gpu
