#pragma once
// The numbers that belong to the canonical order (docs/reference/operators.md). They are part of
// the definition: another value gives other bits.
#include <cstdint>

namespace es::gpu {

constexpr std::int64_t kDotChunk = 512;        // G1: length of one fused multiply-add chain
constexpr std::int64_t kSumLanes = 64;         // G2: lanes of SUM64
constexpr std::int64_t kSumChunk = 16384;      // G2: elements summed before a second level
constexpr std::int64_t kColumnRun = 64;        // G3: rows of one COLSUM chain
constexpr std::int64_t kDepthwiseBlock = 112;  // depthwise weight gradient: pixels of a row block

}  // namespace es::gpu
