#pragma once
// Sixteen lanes of AVX-512. Only lanes.h includes this file.
#include <immintrin.h>

#include <cstdint>

namespace es::gpu {
namespace {

using Vec = __m512;
using Mask = __mmask16;
constexpr std::int64_t kWidth = 16;
// A register tile has kTileRows x 2 vectors: 28 of 32 registers hold sums.
constexpr int kTileRows = 14;
constexpr int kNarrowTileRows = kTileRows;  // of a tile with a single vector in each row
// Floats of the second-level cache: 2 MiB, as in Intel's servers since 2023.
constexpr std::int64_t kSecondLevelFloats = 512 * 1024;

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
// Stores the first n lanes, whose mask is m.
inline void store_first(float* p, Vec v, std::int64_t, Mask m) {
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
inline Vec sqrt(Vec a) {
  return _mm512_sqrt_ps(a);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Vec negate(Vec a) {
  return _mm512_castsi512_ps(
      _mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
}

// v > 0 ? v : +0; a NaN stays.
inline Vec positive_part(Vec v) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, zero(), _CMP_NLE_UQ), v);
}
// test > 0 ? v : +0, or NaN where either is NaN.
inline Vec keep_positive(Vec v, Vec test) {
  const Vec kept = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(test, zero(), _CMP_GT_OQ), v);
  return _mm512_mask_add_ps(kept, _mm512_cmp_ps_mask(v, test, _CMP_UNORD_Q), v, test);
}
// best < v ? v : best. A NaN in v is never taken; a NaN in `best` stays.
inline Vec larger_of(Vec best, Vec v) {
  return _mm512_max_ps(v, best);
}
// v < best ? v : best. A NaN in v is never taken; a NaN in `best` stays.
inline Vec smaller_of(Vec best, Vec v) {
  return _mm512_min_ps(v, best);
}
// Returns p * 2^n rounded once, for an integer n in [-126, 127], or NaN.
inline Vec times_normal_power_of_two(Vec p, Vec n) {
  return _mm512_scalef_ps(p, n);
}
// Returns p * 2^n rounded once, for p in [0.5, 2) and an integer n in [-150, 128], or NaN. A
// processor takes hundreds of cycles for a multiplication with a subnormal result. So where the
// result may be subnormal, it is computed as a rounded integer that counts units of the smallest
// subnormal number; the bits of this integer are the bits of the result.
inline Vec times_power_of_two(Vec p, Vec n) {
  const __mmask16 tiny = _mm512_cmp_ps_mask(n, _mm512_set1_ps(-125.0f), _CMP_LT_OQ);
  if (__builtin_expect(tiny == 0, 1)) return _mm512_scalef_ps(p, n);
  const Vec count = _mm512_scalef_ps(p, _mm512_maskz_add_ps(tiny, n, _mm512_set1_ps(149.0f)));
  const Vec large = _mm512_scalef_ps(p, _mm512_mask_mov_ps(n, tiny, _mm512_setzero_ps()));
  return _mm512_mask_mov_ps(large, tiny, _mm512_castsi512_ps(_mm512_cvtps_epi32(count)));
}

// Lanes of small integers that accompany a Vec.
using IntVec = __m512i;
inline IntVec set_int(std::int32_t x) {
  return _mm512_set1_epi32(x);
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
// Converts kWidth bytes to integers, and back.
inline IntVec load_bytes(const std::uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline void store_bytes(std::uint8_t* p, IntVec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}

// --- Comparisons, signs, single lanes.
using Test = __mmask16;
inline Test less(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
inline Test equal(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
// Returns whether either is NaN.
inline Test unordered(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}
inline Test either(Test a, Test b) {
  return static_cast<Test>(a | b);
}
// Returns whether v replaces `best` as the maximum. The first NaN does, and then stays.
inline Test takes_over(Vec best, Vec v) {
  return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(best, best, _CMP_ORD_Q), best, v, _CMP_NGE_UQ);
}
// test ? a : b
inline Vec select(Test test, Vec a, Vec b) {
  return _mm512_mask_mov_ps(b, test, a);
}
inline IntVec select(Test test, IntVec a, IntVec b) {
  return _mm512_mask_mov_epi32(b, test, a);
}
// test ? v : +0
inline Vec keep_if(Test test, Vec v) {
  return _mm512_maskz_mov_ps(test, v);
}
// Returns the first lanes of v, and +0 in the others.
inline Vec keep_first(Vec v, Mask m) {
  return _mm512_maskz_mov_ps(m, v);
}
// Returns the first lanes of v, and those of `beyond` in the others.
inline Vec first_or(Vec v, Vec beyond, Mask m) {
  return _mm512_mask_mov_ps(beyond, m, v);
}
inline bool any_nan(Vec v) {
  return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) != 0;
}
inline Vec absolute(Vec v) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MAX)));
}
inline Vec with_sign(Vec magnitude, Vec sign) {
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(magnitude),
                                                       _mm512_castps_si512(sign),
                                                       _mm512_set1_epi32(INT32_MAX), 0xe4));
}
// Lane j += lane j + h for h = 8, 4, 2, 1 (the end of SUM64).
inline float fold_lanes(Vec v) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
// Returns the largest lane. No lane is NaN.
inline float largest_lane(Vec v) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
// Stores past the caches, to an address that is a multiple of 64. stream_fence() must follow the
// last such store.
inline void stream(float* p, Vec v) {
  _mm512_stream_ps(p, v);
}
inline void stream_fence() {
  _mm_sfence();
}

// --- The bits of floats as 32-bit integers.
inline IntVec bits_of(Vec v) {
  return _mm512_castps_si512(v);
}
inline Vec from_bits(IntVec v) {
  return _mm512_castsi512_ps(v);
}
inline IntVec add(IntVec a, IntVec b) {
  return _mm512_add_epi32(a, b);
}
inline IntVec sub(IntVec a, IntVec b) {
  return _mm512_sub_epi32(a, b);
}
inline IntVec bit_and(IntVec a, IntVec b) {
  return _mm512_and_si512(a, b);
}
// The integers are signed: the exponent is above 23 bits of mantissa.
inline IntVec shift_right_23(IntVec v) {
  return _mm512_srai_epi32(v, 23);
}
inline IntVec shift_right_16(IntVec v) {
  return _mm512_srli_epi32(v, 16);
}
// Loads kWidth words of 16 bits as the upper halves of integers, and stores the upper halves.
inline IntVec load_upper_halves(const std::uint16_t* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
}
inline void store_upper_halves(std::uint16_t* p, IntVec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(shift_right_16(v)));
}
inline Vec to_floats(IntVec v) {
  return _mm512_cvtepi32_ps(v);
}

// --- For the formulas of functions_math.h and element_math.h (one_lane.h says what they mean).
inline bool any(Test test) {
  return test != 0;
}
inline Test both(Test a, Test b) {
  return static_cast<Test>(a & b);
}
inline Test less_equal(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
inline Test less(IntVec a, IntVec b) {
  return _mm512_cmplt_epi32_mask(a, b);
}
inline Test equal(IntVec a, IntVec b) {
  return _mm512_cmpeq_epi32_mask(a, b);
}
inline Test is_odd(IntVec v) {
  return _mm512_test_epi32_mask(v, _mm512_set1_epi32(1));
}
inline IntVec mul(IntVec a, IntVec b) {
  return _mm512_mullo_epi32(a, b);
}
inline IntVec shift_left_23(IntVec v) {
  return _mm512_slli_epi32(v, 23);
}
inline IntVec shift_left_30(IntVec v) {
  return _mm512_slli_epi32(v, 30);
}
inline Vec flip_sign(Vec v, IntVec sign) {
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(_mm512_castps_si512(v), sign, _mm512_set1_epi32(INT32_MIN), 0x78));
}
// Inside the range of integers only.
inline IntVec truncated_inside(Vec v) {
  return _mm512_cvttps_epi32(v);
}
inline Vec rounded(Vec v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec floor_of(Vec v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

// --- 64-bit lanes of which only the low halves matter (vec/dropout.h).
inline IntVec set_wide(std::uint32_t x) {
  return _mm512_set1_epi64(x);
}
// 0, 2, 4, ...
inline IntVec wide_even_numbers() {
  return _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
}
inline IntVec wide_add(IntVec a, IntVec b) {
  return _mm512_add_epi64(a, b);
}
// Returns the products of the low halves.
inline IntVec wide_product(IntVec a, IntVec b) {
  return _mm512_mul_epu32(a, b);
}
inline IntVec wide_high(IntVec v) {
  return _mm512_srli_epi64(v, 32);
}
inline IntVec exclusive_or(IntVec a, IntVec b, IntVec c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}
// Returns the low halves of `even` in the even 32-bit lanes and those of `odd` in the odd lanes.
inline IntVec interleave_low(IntVec even, IntVec odd) {
  return _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}
inline IntVec upper_24_bits(IntVec v) {
  return _mm512_srli_epi32(v, 8);
}
// Bit j of the result: lane j of a < lane j of b, unsigned.
inline std::uint32_t less_unsigned(IntVec a, IntVec b) {
  return _mm512_cmplt_epu32_mask(a, b);
}
// Lane j is true if bit j is set.
inline Test test_of_bits(std::uint32_t bits) {
  return static_cast<Test>(bits);
}

// --- Pairs of bf16 numbers in 32-bit lanes (pairs.h).

inline bool has_pair_instruction() {
  return __builtin_cpu_supports("avx512bf16") != 0;
}
// Adds the products of the upper numbers of the lanes, and then those of the lower ones. It is in
// assembly language because this file is compiled for processors without the instruction.
inline Vec add_pair_products(Vec sum, Vec left, Vec right) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
  return sum;
}
inline IntVec pair_of_halves(IntVec upper, IntVec words_of_lower) {
  return _mm512_mask_blend_epi16(0x55555555, upper, _mm512_srli_epi32(words_of_lower, 16));
}
inline IntVec load_words(const void* p) {
  return _mm512_loadu_si512(p);
}
// Loads the first n words of 16 bits, n <= 32; the others are 0.
inline IntVec load_halves(const void* p, std::int64_t n) {
  return _mm512_maskz_loadu_epi16(n >= 32 ? ~__mmask32(0) : (__mmask32(1) << n) - 1, p);
}
inline IntVec swap_halves(IntVec v) {
  return _mm512_rol_epi32(v, 16);
}
inline IntVec lower_half_as_upper(IntVec v) {
  return _mm512_slli_epi32(v, 16);
}
// Returns the upper halves of the lanes of `a`, and then of `b`, each two of them as one lane: the
// upper half of an even lane becomes the upper half of its pair.
inline IntVec pairs_along(IntVec a, IntVec b) {
  const auto pairs = [](IntVec v) {
    const IntVec even = _mm512_and_si512(v, _mm512_set1_epi64(0xffff0000));
    return _mm512_cvtepi64_epi32(_mm512_or_si512(even, _mm512_srli_epi64(v, 48)));
  };
  return _mm512_inserti64x4(_mm512_castsi256_si512(pairs(a)), pairs(b), 1);
}
// The smaller and the larger halves of lanes, as unsigned numbers of 16 bits.
inline IntVec smaller_halves(IntVec a, IntVec b) {
  return _mm512_min_epu16(a, b);
}
inline IntVec larger_halves(IntVec a, IntVec b) {
  return _mm512_max_epu16(a, b);
}
// Returns the halves minus one; 0 becomes 0xffff.
inline IntVec halves_minus_one(IntVec v) {
  return _mm512_add_epi16(v, _mm512_set1_epi16(-1));
}

// --- Lanes of 64-bit floats, half as many, for exact products (exact.h).
using Doubles = __m512d;
inline Doubles zero_doubles() {
  return _mm512_setzero_pd();
}
inline Doubles set_double(double x) {
  return _mm512_set1_pd(x);
}
inline Doubles load_doubles(const double* p) {
  return _mm512_loadu_pd(p);
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
  return _mm512_fmadd_pd(a, b, c);
}
// Stores the lower half of the lanes at `low` and the upper half at `high`.
inline void store_as_doubles(double* low, double* high, Vec v) {
  _mm512_storeu_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
  _mm512_storeu_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
}
// Returns the nearest floats.
inline Vec nearest_floats(Doubles low, Doubles high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

// --- Pairs of integers of 16 bits in 32-bit lanes (exact.h).
inline bool has_word_instruction() {
  return __builtin_cpu_supports("avx512vnni") != 0;
}
// Adds the products of the lower integers and those of the upper ones. It is in assembly language
// because this file is compiled for processors without the instruction.
inline IntVec add_word_products(IntVec sum, IntVec left, IntVec right) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
  return sum;
}
inline IntVec pair_of_words(IntVec lower, IntVec upper) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, lower, _mm512_slli_epi32(upper, 16));
}
// Returns the nearest integers.
inline IntVec nearest_ints(Vec v) {
  return _mm512_cvtps_epi32(v);
}
// The integer v is 256 * high + low, with -128 <= low < 128.
inline IntVec high_part(IntVec v) {
  return _mm512_srai_epi32(_mm512_add_epi32(v, _mm512_set1_epi32(128)), 8);
}
inline IntVec low_part(IntVec v) {
  return _mm512_sub_epi32(v, _mm512_slli_epi32(high_part(v), 8));
}
// Returns the floats that are nearest to 256 * high + low.
inline Vec joined_parts(IntVec high, IntVec low) {
  const auto joined = [](__m256i h, __m256i l) {
    return fma(_mm512_cvtepi32_pd(h), _mm512_set1_pd(256.0), _mm512_cvtepi32_pd(l));
  };
  return nearest_floats(
      joined(_mm512_castsi512_si256(high), _mm512_castsi512_si256(low)),
      joined(_mm512_extracti64x4_epi64(high, 1), _mm512_extracti64x4_epi64(low, 1)));
}

// out[j] lane i = from[i * stride + j] for j < 4, i < kWidth. Rows are loaded into quarters of a
// register, so that only the transposition inside each quarter needs shuffles.
inline __attribute__((always_inline)) void transpose_four(const float* from, std::int64_t stride,
                                                          Vec out[4]) {
  Vec r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const float* row = from + i * stride;
    r[i] = _mm512_castps128_ps512(_mm_loadu_ps(row));
    r[i] = _mm512_insertf32x4(r[i], _mm_loadu_ps(row + 4 * stride), 1);
    r[i] = _mm512_insertf32x4(r[i], _mm_loadu_ps(row + 8 * stride), 2);
    r[i] = _mm512_insertf32x4(r[i], _mm_loadu_ps(row + 12 * stride), 3);
  }
  const __m512d t0 = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1]));
  const __m512d t1 = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
  const __m512d t2 = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
  const __m512d t3 = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
  out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(t0, t2));
  out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(t0, t2));
  out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(t1, t3));
  out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(t1, t3));
}

}  // namespace
}  // namespace es::gpu
