#pragma once
// The constants of EXP and LOG. They are part of the canonical order: another polynomial of the
// same accuracy gives other bits. The polynomials are minimax fits with coefficients rounded to
// binary32; the arithmetic is in scalar_math.h.
#include <cstdint>

namespace es::gpu {

constexpr float kInfinity = __builtin_inff();
constexpr float kNaN = __builtin_nanf("");
constexpr float kSmallestNormal = 0x1p-126f;
constexpr std::uint32_t kExponentMask = 0xff800000u;  // with the sign bit

// EXP. Beyond the bounds the result is +0 or +inf.
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

}  // namespace es::gpu
