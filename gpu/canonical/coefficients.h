#pragma once
// The constants of EXP, LOG, ERF, TANH and GELU. They belong to the canonical order: another
// polynomial of the same accuracy gives other bits. The polynomials are minimax fits whose
// coefficients are rounded to binary32. The arithmetic is in scalar_math.h.
#include <cstdint>

namespace es::gpu {

constexpr float kInfinity = __builtin_inff();
constexpr float kNaN = __builtin_nanf("");
constexpr float kSmallestNormal = 0x1p-126f;
constexpr std::uint32_t kExponentMask = 0xff800000u;  // with the sign bit

// EXP. Outside of the bounds the result is +0 or +inf.
constexpr float kExpLowest = -104.0f;
constexpr float kExpHighest = 89.0f;
constexpr float kExpLog2E = 0x1.715476p+0f;
constexpr float kExpMagic = 12582912.0f;  // 1.5 * 2^23
constexpr std::uint32_t kExpMagicBits = 0x4b400000u;
constexpr float kExpLn2High = 0x1.62e400p-1f;  // n * high is exact for |n| < 2^9
constexpr float kExpLn2Low = 0x1.7f7d1cp-20f;
// e^r = 1 + r + r^2 * (c0 + c1 r + ...) for |r| <= ln(2)/2
constexpr float kExpPoly[] = {0x1.fffffcp-2f, 0x1.55549p-3f, 0x1.5558f8p-5f, 0x1.123b04p-7f,
                              0x1.6a224ep-10f};

// LOG.
constexpr float kTwoTo23 = 0x1p23f;
constexpr std::uint32_t kLogTwoThirdsBits = 0x3f2aaaabu;
constexpr float kLn2 = 0x1.62e430p-1f;
// log(1+f) = f - f^2/2 + f^3 * (c0 + c1 f + ...)
constexpr float kLogPoly[] = {0x1.555528p-2f, -0x1.000b1cp-2f, 0x1.99c31cp-3f, -0x1.515a6ap-3f,
                              0x1.1f965ep-3f, -0x1.35b3e6p-3f, 0x1.1b08a4p-3f};

// ERF. For |x| below kErfSmall: erf(x) = x + x * (c0 + c1 x^2 + ...). From there on: erf(|x|) = 1 -
// e^q with q = c0 + c1 |x| + ...; beyond kErfHighest the result is 1.
constexpr float kErfSmall = 0.925f;
constexpr float kErfHighest = 4.0f;
constexpr float kErfSmallPoly[] = {0x1.06eba6p-3f,  -0x1.8126dcp-2f, 0x1.ce1904p-4f,
                                   -0x1.b676c8p-6f, 0x1.46c22ep-8f,  -0x1.3825b2p-11f};
constexpr float kErfLargePoly[] = {0x1.6e5820p-13f, -0x1.2127e4p+0f, -0x1.44460ap-1f,
                                   -0x1.bb83eep-4f, 0x1.9b8e9ap-6f,  -0x1.115af6p-8f,
                                   0x1.c791aap-12f, -0x1.61eb4cp-16f};

// TANH. For |x| below kTanhSmall: tanh(x) = x + x^3 * (c0 + c1 x^2 + ...).
constexpr float kTanhSmall = 0.625f;
constexpr float kTanhPoly[] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c56p-5f, 0x1.522686p-6f,
                               -0x1.75e17ap-8f};

// GELU.
constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kNormalDensity = 0.3989422804014327f;  // 1 / sqrt(2 pi)

}  // namespace es::gpu
