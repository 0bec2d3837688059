#pragma once
// EstContext: the state that belongs to one EST and moves with it. It is a plain value. A local
// step reads the context of version t and writes a NEW context of version t + 1. Therefore a step
// can be repeated with the same bits.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::gpu {

// The position of the EST's sampler: the next mini-batch that it will read.
struct SamplerCursor {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  // step within the epoch
  bool operator==(const SamplerCursor&) const = default;
};

// Returns the cursor after one more mini-batch. REQUIRES: steps_per_epoch > 0.
SamplerCursor advance(SamplerCursor cursor, std::uint64_t steps_per_epoch);

struct EstContext {
  VirtualRank rank = 0;
  Version version = 0;  // the version of the parameters that the context belongs to
  SamplerCursor cursor;
  // Running statistics of batch norms and the model's states, in the layout of ParamTable::stats().
  std::vector<float> stats;
  // Compares the bits of `stats`, because the integers of a state may look like NaN.
  bool operator==(const EstContext& other) const;
};

// Returns the encoding, format 1, little endian: "ESCX", u32 format, u32 rank, u32 count, u64
// version, u64 epoch, u64 step, then `count` fp32 values as bits. Every context has exactly one
// encoding.
std::vector<std::byte> encode(const EstContext& context);

// Reads an encoded context. Error (failure): wrong magic, format or length, or a number of
// statistics other than `stat_floats`.
Result<EstContext> decode_context(std::span<const std::byte> bytes, std::int64_t stat_floats);

}  // namespace es::gpu
