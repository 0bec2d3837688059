// Digests of chunks of memory: XXH3-128 (seed 0, default secret) of inputs of one length. According
// to the public specification, an input consists of stripes of eight 64-bit words, and 16 stripes
// are a block. Lane i accumulates word i of all stripes and is scrambled after each block except
// the last.
#include "gpu/base/digest_chunk.h"
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

using Word = std::uint64_t;

constexpr unsigned kLanes = 8;
constexpr std::int64_t kStripeFloats = 2 * kLanes;
constexpr int kBlockStripes = 16;
constexpr int kBlocks = kDigestChunkFloats / (kBlockStripes * kStripeFloats);
static_assert(kBlocks * kBlockStripes * kStripeFloats == kDigestChunkFloats);

constexpr Word kPrime32A = 0x9e3779b1, kPrime32B = 0x85ebca77, kPrime32C = 0xc2b2ae3d;
constexpr Word kPrime64A = 0x9e3779b185ebca87, kPrime64B = 0xc2b2ae3d27d4eb4f,
               kPrime64C = 0x165667b19e3779f9, kPrime64D = 0x85ebca77c2b2ae63,
               kPrime64E = 0x27d4eb2f165667c5;

// The byte offsets at which the secret is read. A stripe's words use 8 times the number of the
// stripe in its block.
constexpr unsigned kLastStripeSecret = 121, kScrambleSecret = 128;
constexpr unsigned kLowSecret = 11, kHighSecret = 117;

ES_HD inline Word first_state(unsigned lane) {
  switch (lane) {
    case 0:
      return kPrime32C;
    case 1:
      return kPrime64A;
    case 2:
      return kPrime64B;
    case 3:
      return kPrime64C;
    case 4:
      return kPrime64D;
    case 5:
      return kPrime32B;
    case 6:
      return kPrime64E;
    default:
      return kPrime32A;
  }
}

// Returns 8 bytes of the secret, from any byte on.
ES_HD inline Word secret_at(const Word* secret, unsigned byte) {
  const unsigned shift = 8 * (byte % 8);
  const Word low = secret[byte / 8];
  // A shift by 64 bits is not defined, so an aligned read is a case of its own.
  return shift == 0 ? low : low >> shift | secret[byte / 8 + 1] << (64 - shift);
}

ES_HD inline Word word_of(float low, float high) {
  return Word{std::bit_cast<std::uint32_t>(high)} << 32 | std::bit_cast<std::uint32_t>(low);
}

// Returns the exclusive or of the two halves of the 128-bit product.
ES_HD inline Word folded_product(Word a, Word b) {
  constexpr Word kLow = 0xffffffff;
  const Word low = (a & kLow) * (b & kLow), right = (a >> 32) * (b & kLow);
  const Word cross = (low >> 32) + (right & kLow) + (a & kLow) * (b >> 32);
  const Word high = (right >> 32) + (cross >> 32) + (a >> 32) * (b >> 32);
  return high ^ (cross << 32 | (low & kLow));
}

ES_HD inline Word merged(const Word* lanes, const Word* secret, unsigned at, Word start) {
  for (unsigned i = 0; i < kLanes; i += 2)
    start += folded_product(lanes[i] ^ secret_at(secret, at + 8 * i),
                            lanes[i + 1] ^ secret_at(secret, at + 8 * i + 8));
  start ^= start >> 37;
  start *= 0x165667919e3779f9;
  return start ^ start >> 32;
}

// A thread computes one lane of a chunk.
struct ChunkDigests {
  static constexpr unsigned kThreads = 32;
  struct Shared {
    Word lanes[kThreads];
  };
  std::int64_t chunks;
  const float* x;
  const Word* secret;
  Word* digests;

  ES_HD Word lane_of(const float* chunk, unsigned lane) const {
    // Address of a pair of words; the neighbouring lane reads the same pair.
    const float* pair = chunk + lane / 2 * 4;
    const Word last_key = secret_at(secret, kLastStripeSecret + 8 * lane);
    const Word scramble_key = secret_at(secret, kScrambleSecret + 8 * lane);
    Word state = first_state(lane);
    for (int b = 0; b < kBlocks; ++b) {
      Pack<4> stripes[kBlockStripes];
      ES_UNROLL
      for (int s = 0; s < kBlockStripes; ++s)
        stripes[s] = load_pack<4>(pair + (b * kBlockStripes + s) * kStripeFloats);
      const bool last = b + 1 == kBlocks;
      ES_UNROLL
      for (int s = 0; s < kBlockStripes; ++s) {
        const float* const v = stripes[s].v;
        const Word even = word_of(v[0], v[1]), odd = word_of(v[2], v[3]);
        const Word key = last && s + 1 == kBlockStripes ? last_key : secret[s + lane];
        const Word mixed = (lane % 2 == 0 ? even : odd) ^ key;
        state += (lane % 2 == 0 ? odd : even) + (mixed & 0xffffffff) * (mixed >> 32);
      }
      if (!last) state = (state ^ state >> 47 ^ scramble_key) * kPrime32A;
    }
    return state;
  }

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const unsigned thread = block.thread(), lane = thread % kLanes;
    const std::int64_t chunk = thread_in_grid(*this, block) / kLanes;
    if (chunk < chunks) shared.lanes[thread] = lane_of(x + chunk * kDigestChunkFloats, lane);
    // The barrier lies in front of the test of `chunk`, because every thread of a block must reach
    // it.
    block.sync();
    if (chunk >= chunks || lane > 1) return;
    constexpr Word kBytes = kDigestChunkBytes;
    const Word* const lanes = shared.lanes + (thread - lane);
    digests[2 * chunk + lane] = lane == 0
                                    ? merged(lanes, secret, kLowSecret, kBytes * kPrime64A)
                                    : merged(lanes, secret, kHighSecret, ~(kBytes * kPrime64B));
  }
};

void chunk_digests(Stream stream, std::int64_t chunks, const float* x, const Word* secret,
                   Word* digests) {
  launch(stream, {.x = blocks_for<ChunkDigests>(kLanes * chunks)},
         ChunkDigests{chunks, x, secret, digests});
}

}  // namespace

void add_digest(DeviceKernels& kernels) {
  kernels.chunk_digests = chunk_digests;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
