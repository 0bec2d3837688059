#pragma once
// Eight lanes of AVX2 with FMA. Included by lanes.h only.
#include <immintrin.h>

#include <cstdint>

namespace es::gpu {
namespace {

using Vec = __m256;
using Mask = __m256i;
constexpr std::int64_t kWidth = 8;
// A register tile is kTileRows x 2 vectors: 12 of 16 registers hold sums.
constexpr int kTileRows = 6;

inline Vec zero() {
  return _mm256_setzero_ps();
}
inline Vec set(float x) {
  return _mm256_set1_ps(x);
}
inline Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}

inline Mask first_lanes(std::int64_t n) {
  const std::int32_t count = n >= kWidth ? kWidth : static_cast<std::int32_t>(n);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load(const float* p, Mask m) {
  return _mm256_maskload_ps(p, m);
}
inline void store(float* p, Vec v, Mask m) {
  _mm256_maskstore_ps(p, m, v);
}

inline Vec add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
inline Vec sub(Vec a, Vec b) {
  return _mm256_sub_ps(a, b);
}
inline Vec mul(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
inline Vec div(Vec a, Vec b) {
  return _mm256_div_ps(a, b);
}
inline Vec root(Vec a) {
  return _mm256_sqrt_ps(a);
}
inline Vec fused(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Vec negate(Vec a) {
  return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}

// test > 0 ? v : +0
inline Vec keep_positive(Vec v, Vec test) {
  return _mm256_and_ps(v, _mm256_cmp_ps(test, zero(), _CMP_GT_OQ));
}
// best < v ? v : best. A NaN in v is never taken.
inline Vec larger_of(Vec best, Vec v) {
  return _mm256_max_ps(v, best);
}
// lowest when x < lowest, highest when highest < x, else x (also NaN).
inline Vec clamp(Vec x, Vec lowest, Vec highest) {
  return _mm256_max_ps(lowest, _mm256_min_ps(highest, x));
}

// 2^n as a float, for n in [-126, 127].
inline Vec power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
// p * 2^n rounded once, for an integer n in [-150, 128]: of the two products the first is exact.
inline Vec times_power_of_two(Vec p, Vec n) {
  const __m256i exponent = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  return mul(mul(p, power_of_two(half)), power_of_two(_mm256_sub_epi32(exponent, half)));
}

// Lanes of small integers beside a Vec.
using IntVec = __m256i;
inline IntVec set_int(std::int32_t x) {
  return _mm256_set1_epi32(x);
}
// best < v ? then : otherwise
inline IntVec select_if_less(Vec best, Vec v, IntVec then, IntVec otherwise) {
  return _mm256_blendv_epi8(otherwise, then,
                            _mm256_castps_si256(_mm256_cmp_ps(best, v, _CMP_LT_OQ)));
}
// index == wanted ? v : +0
inline Vec keep_if_equal(Vec v, IntVec index, IntVec wanted) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_cmpeq_epi32(index, wanted)));
}
inline void store_ints(std::int32_t* p, IntVec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
inline IntVec load_ints(const std::int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

}  // namespace
}  // namespace es::gpu
