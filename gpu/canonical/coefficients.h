#pragma once
// The constants of the elementary functions. They belong to the canonical order: another
// polynomial of the same accuracy gives other bits. The polynomials are minimax fits whose
// coefficients are rounded to binary32. The arithmetic is in scalar_math.h and functions_math.h.
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

// EXPM1: e^r - 1 = r + r^2 * (c0 + c1 r + ...) for |r| <= ln(2)/2. Below kExpm1Lowest the result is
// -1. Below kLinearBelow, EXPM1(x) and LOG1P(x) are x.
constexpr float kExpm1Lowest = -18.0f;
constexpr float kLinearBelow = 0x1p-25f;
constexpr float kExpm1Poly[] = {0x1.0p-1f,      0x1.555554p-3f,  0x1.5554f8p-5f,
                                0x1.1112d4p-7f, 0x1.6d3a5ep-10f, 0x1.9e7c7cp-13f};

// SIN and COS. pi/2 is the sum of three floats, of which the first times an integer below 2^17 /
// (pi / 2) is subtracted exactly by an fma. For |r| <= pi/4, with z = r^2: sin r = r + r z (c0 + c1
// z + ...), cos r = 1 - z/2 + z^2 (c0 + c1 z + ...).
constexpr float kTurnLimit = 0x1p17f;
constexpr float kSinLinearBelow = 0x1p-13f;  // SIN(x) is x
constexpr float kTwoOverPi = 0x1.45f306p-1f;
constexpr float kHalfPiHigh = 0x1.921fb6p+0f;
constexpr float kHalfPiMiddle = -0x1.777a5cp-25f;
constexpr float kHalfPiLow = -0x1.ee59dap-50f;
constexpr float kSinPoly[] = {-0x1.555556p-3f, 0x1.111174p-7f, -0x1.a05956p-13f, 0x1.7c2d52p-19f};
constexpr float kCosPoly[] = {0x1.555556p-5f, -0x1.6c175cp-10f, 0x1.a06faep-16f, -0x1.35939ep-22f};

// POW.
constexpr std::int32_t kSqrtHalfBits = 0x3f3504f3;
constexpr float kTwoThirds = 0x1.555556p-1f;
constexpr float kTwoThirdsLow = -0x1.555556p-26f;
constexpr float kLogTailPoly[] = {0x1.999a02p-2f, 0x1.2451b0p-2f, 0x1.dfc8b2p-3f};

}  // namespace es::gpu
