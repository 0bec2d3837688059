#pragma once
// Eight lanes of AVX2 with FMA. Only lanes.h includes this file.
#include <immintrin.h>

#include <cstdint>

namespace es::gpu {
namespace {

using Vec = __m256;
using Mask = __m256i;
constexpr std::int64_t kWidth = 8;
// A register tile has kTileRows x 2 vectors: 12 of 16 registers hold sums.
constexpr int kTileRows = 6;
// A tile of one vector in each row has more rows: each sum waits for its last product, and a
// processor needs eight sums to keep both multipliers busy.
constexpr int kNarrowTileRows = 8;
// Floats of the second-level cache: 512 KiB, as in AMD's processors without AVX-512.
constexpr std::int64_t kSecondLevelFloats = 128 * 1024;

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
// Stores the first n lanes, n >= 0. (A masked store takes processors of AMD sixteen cycles.)
inline void store_first(float* p, Vec v, std::int64_t n, Mask) {
  if (n >= kWidth) return store(p, v);
  __m128 rest = _mm256_castps256_ps128(v);
  if (n & 4) {
    _mm_storeu_ps(p, rest);
    rest = _mm256_extractf128_ps(v, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
    rest = _mm_movehl_ps(rest, rest);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, rest);
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
inline Vec sqrt(Vec a) {
  return _mm256_sqrt_ps(a);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Vec negate(Vec a) {
  return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}

// v > 0 ? v : +0; a NaN stays.
inline Vec positive_part(Vec v) {
  return _mm256_and_ps(v, _mm256_cmp_ps(v, zero(), _CMP_NLE_UQ));
}
// test > 0 ? v : +0, or NaN where either is NaN.
inline Vec keep_positive(Vec v, Vec test) {
  return _mm256_or_ps(_mm256_and_ps(v, _mm256_cmp_ps(test, zero(), _CMP_GT_OQ)),
                      _mm256_cmp_ps(v, test, _CMP_UNORD_Q));  // all bits set: a NaN
}
// best < v ? v : best. A NaN in v is never taken; a NaN in `best` stays.
inline Vec larger_of(Vec best, Vec v) {
  return _mm256_max_ps(v, best);
}
// v < best ? v : best. A NaN in v is never taken; a NaN in `best` stays.
inline Vec smaller_of(Vec best, Vec v) {
  return _mm256_min_ps(v, best);
}

// Returns 2^n as a float, for n in [-126, 127].
inline Vec power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
// Returns p * 2^n rounded once, for an integer n in [-126, 127], or NaN.
inline Vec times_normal_power_of_two(Vec p, Vec n) {
  return mul(p, power_of_two(_mm256_cvtps_epi32(n)));
}
// Returns p * 2^n for an integer n in [-125, 128]. The first of the two products is exact.
inline Vec times_large_power_of_two(Vec p, Vec n) {
  const __m256i exponent = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  return mul(mul(p, power_of_two(half)), power_of_two(_mm256_sub_epi32(exponent, half)));
}
// Returns p * 2^n rounded once, for p in [0.5, 2) and an integer n in [-150, 128], or NaN. A
// processor takes hundreds of cycles for a multiplication with a subnormal result. So where the
// result may be subnormal, it is computed as a rounded integer that counts units of the smallest
// subnormal number; the bits of this integer are the bits of the result.
inline Vec times_power_of_two(Vec p, Vec n) {
  const Vec tiny = _mm256_cmp_ps(n, set(-125.0f), _CMP_LT_OQ);
  if (__builtin_expect(_mm256_movemask_ps(tiny) == 0, 1)) return times_large_power_of_two(p, n);
  const Vec power = _mm256_and_ps(tiny, add(n, set(149.0f)));
  const Vec count = mul(p, power_of_two(_mm256_cvtps_epi32(power)));
  const Vec large = times_large_power_of_two(p, _mm256_andnot_ps(tiny, n));
  return _mm256_blendv_ps(large, _mm256_castsi256_ps(_mm256_cvtps_epi32(count)), tiny);
}

// Lanes of small integers that accompany a Vec.
using IntVec = __m256i;
inline IntVec set_int(std::int32_t x) {
  return _mm256_set1_epi32(x);
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
// Converts kWidth bytes to integers, and back.
inline IntVec load_bytes(const std::uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
inline void store_bytes(std::uint8_t* p, IntVec v) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}

// --- Comparisons, signs, single lanes.
using Test = __m256;
inline Test less(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
inline Test equal(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
// Returns whether either is NaN.
inline Test unordered(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}
inline Test either(Test a, Test b) {
  return _mm256_or_ps(a, b);
}
// Returns whether v replaces `best` as the maximum. The first NaN does, and then stays.
inline Test takes_over(Vec best, Vec v) {
  return _mm256_and_ps(_mm256_cmp_ps(best, v, _CMP_NGE_UQ), _mm256_cmp_ps(best, best, _CMP_ORD_Q));
}
// test ? a : b
inline Vec select(Test test, Vec a, Vec b) {
  return _mm256_blendv_ps(b, a, test);
}
inline IntVec select(Test test, IntVec a, IntVec b) {
  return _mm256_blendv_epi8(b, a, _mm256_castps_si256(test));
}
// test ? v : +0
inline Vec keep_if(Test test, Vec v) {
  return _mm256_and_ps(test, v);
}
// Returns the first lanes of v, and +0 in the others.
inline Vec keep_first(Vec v, Mask m) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(m));
}
// Returns the first lanes of v, and those of `beyond` in the others.
inline Vec first_or(Vec v, Vec beyond, Mask m) {
  return _mm256_blendv_ps(beyond, v, _mm256_castsi256_ps(m));
}
inline bool any_nan(Vec v) {
  return _mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)) != 0;
}
inline Vec absolute(Vec v) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}
inline Vec with_sign(Vec magnitude, Vec sign) {
  const Vec sign_bit = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(sign_bit, magnitude), _mm256_and_ps(sign_bit, sign));
}
// Lane j += lane j + h for h = 4, 2, 1 (the end of SUM64).
inline float fold_lanes(Vec v) {
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
// Returns the largest lane. No lane is NaN.
inline float largest_lane(Vec v) {
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
// Stores past the caches, to an address that is a multiple of 32. stream_fence() must follow the
// last such store.
inline void stream(float* p, Vec v) {
  _mm256_stream_ps(p, v);
}
inline void stream_fence() {
  _mm_sfence();
}

// --- The bits of floats as 32-bit integers.
inline IntVec bits_of(Vec v) {
  return _mm256_castps_si256(v);
}
inline Vec from_bits(IntVec v) {
  return _mm256_castsi256_ps(v);
}
inline IntVec add(IntVec a, IntVec b) {
  return _mm256_add_epi32(a, b);
}
inline IntVec sub(IntVec a, IntVec b) {
  return _mm256_sub_epi32(a, b);
}
inline IntVec bit_and(IntVec a, IntVec b) {
  return _mm256_and_si256(a, b);
}
// The integers are signed: the exponent is above 23 bits of mantissa.
inline IntVec shift_right_23(IntVec v) {
  return _mm256_srai_epi32(v, 23);
}
inline IntVec shift_right_16(IntVec v) {
  return _mm256_srli_epi32(v, 16);
}
// Loads kWidth words of 16 bits as the upper halves of integers, and stores the upper halves.
inline IntVec load_upper_halves(const std::uint16_t* p) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
}
inline void store_upper_halves(std::uint16_t* p, IntVec v) {
  const IntVec halves = shift_right_16(v);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
}
inline Vec to_floats(IntVec v) {
  return _mm256_cvtepi32_ps(v);
}

// --- For the formulas of functions_math.h and element_math.h (one_lane.h says what they mean).
inline bool any(Test test) {
  return _mm256_movemask_ps(test) != 0;
}
inline Test both(Test a, Test b) {
  return _mm256_and_ps(a, b);
}
inline Test less_equal(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}
inline Test less(IntVec a, IntVec b) {
  return _mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a));
}
inline Test equal(IntVec a, IntVec b) {
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b));
}
inline Test is_odd(IntVec v) {
  const IntVec one = _mm256_set1_epi32(1);
  return equal(_mm256_and_si256(v, one), one);
}
inline IntVec mul(IntVec a, IntVec b) {
  return _mm256_mullo_epi32(a, b);
}
inline IntVec shift_left_23(IntVec v) {
  return _mm256_slli_epi32(v, 23);
}
inline IntVec shift_left_30(IntVec v) {
  return _mm256_slli_epi32(v, 30);
}
inline Vec flip_sign(Vec v, IntVec sign) {
  return _mm256_xor_ps(v, _mm256_and_ps(_mm256_castsi256_ps(sign), _mm256_set1_ps(-0.0f)));
}
// Inside the range of integers only.
inline IntVec truncated_inside(Vec v) {
  return _mm256_cvttps_epi32(v);
}
inline Vec rounded(Vec v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec floor_of(Vec v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

// --- 64-bit lanes of which only the low halves matter (vec/dropout.h).
inline IntVec set_wide(std::uint32_t x) {
  return _mm256_set1_epi64x(x);
}
// 0, 2, 4, ...
inline IntVec wide_even_numbers() {
  return _mm256_setr_epi64x(0, 2, 4, 6);
}
inline IntVec wide_add(IntVec a, IntVec b) {
  return _mm256_add_epi64(a, b);
}
// Returns the products of the low halves.
inline IntVec wide_product(IntVec a, IntVec b) {
  return _mm256_mul_epu32(a, b);
}
inline IntVec wide_high(IntVec v) {
  return _mm256_srli_epi64(v, 32);
}
inline IntVec exclusive_or(IntVec a, IntVec b, IntVec c) {
  return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}
// Returns the low halves of `even` in the even 32-bit lanes and those of `odd` in the odd lanes.
inline IntVec interleave_low(IntVec even, IntVec odd) {
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
inline IntVec upper_24_bits(IntVec v) {
  return _mm256_srli_epi32(v, 8);
}
// Bit j of the result: lane j of a < lane j of b, unsigned.
inline std::uint32_t less_unsigned(IntVec a, IntVec b) {
  const IntVec flip = _mm256_set1_epi32(INT32_MIN);  // the instruction compares signed numbers
  const IntVec less = _mm256_cmpgt_epi32(_mm256_xor_si256(b, flip), _mm256_xor_si256(a, flip));
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(less)));
}
// Lane j is true if bit j is set.
inline Test test_of_bits(std::uint32_t bits) {
  const IntVec lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const IntVec set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lanes);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lanes));
}

// --- Lanes of 64-bit floats, half as many, for exact products (exact.h).
using Doubles = __m256d;
inline Doubles zero_doubles() {
  return _mm256_setzero_pd();
}
inline Doubles set_double(double x) {
  return _mm256_set1_pd(x);
}
inline Doubles load_doubles(const double* p) {
  return _mm256_loadu_pd(p);
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
  return _mm256_fmadd_pd(a, b, c);
}
// Stores the lower half of the lanes at `low` and the upper half at `high`.
inline void store_as_doubles(double* low, double* high, Vec v) {
  _mm256_storeu_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
  _mm256_storeu_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
}
// Returns the nearest floats.
inline Vec nearest_floats(Doubles low, Doubles high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high),
                              1);
}

// out[j] lane i = from[i * stride + j] for j < 4, i < kWidth. Rows are loaded into halves of a
// register, so that only the transposition inside each half needs shuffles.
inline __attribute__((always_inline)) void transpose_four(const float* from, std::int64_t stride,
                                                          Vec out[4]) {
  Vec r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const float* row = from + i * stride;
    r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row)),
                                _mm_loadu_ps(row + 4 * stride), 1);
  }
  const __m256d t0 = _mm256_castps_pd(_mm256_unpacklo_ps(r[0], r[1]));
  const __m256d t1 = _mm256_castps_pd(_mm256_unpackhi_ps(r[0], r[1]));
  const __m256d t2 = _mm256_castps_pd(_mm256_unpacklo_ps(r[2], r[3]));
  const __m256d t3 = _mm256_castps_pd(_mm256_unpackhi_ps(r[2], r[3]));
  out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(t0, t2));
  out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(t0, t2));
  out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(t1, t3));
  out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(t1, t3));
}

}  // namespace
}  // namespace es::gpu
