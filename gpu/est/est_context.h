#pragma once
// EstContext: everything that moves with an EST. A plain value; a local step reads the context of
// version t and writes a NEW one of version t+1, so that a step can be repeated with the same bits.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::gpu {

// Where the EST's sampler stands: the next mini-batch that it will read.
struct SamplerCursor {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  // in the epoch
  bool operator==(const SamplerCursor&) const = default;
};

// The cursor after one more mini-batch. REQUIRES: steps_per_epoch > 0.
SamplerCursor advance(SamplerCursor cursor, std::uint64_t steps_per_epoch);

struct EstContext {
  VirtualRank rank = 0;
  Version version = 0;  // the context belongs to this version of the parameters
  SamplerCursor cursor;
  std::vector<float> stats;  // batch-norm running statistics, layout of ParamTable::stats()
  bool operator==(const EstContext&) const = default;
};

// Format 1, little endian: "ESCX", u32 format, u32 rank, u32 count, u64 version, u64 epoch,
// u64 step, count x fp32 bits. Every context has exactly one encoding.
std::vector<std::byte> encode(const EstContext& context);

// Error (failure): wrong magic, format, length, or a number of statistics other than stat_floats.
Result<EstContext> decode_context(std::span<const std::byte> bytes, std::int64_t stat_floats);

}  // namespace es::gpu
