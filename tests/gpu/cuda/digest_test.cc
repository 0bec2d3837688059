#include <cstring>

#include "gpu/base/digest_chunk.h"
#include "proto/base/digest.h"
#include "proto/base/digest_secret.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

// The digest of each chunk by the library, and by the kernel.
void check_chunks(const Numbers<float>& x) {
  const auto chunks = static_cast<std::int64_t>(x.size()) / kDigestChunkFloats;
  const DigestSecret secret = digest_secret();
  const Numbers<std::uint64_t> words(secret.begin(), secret.end());
  Numbers<std::uint64_t> digests(static_cast<std::size_t>(2 * chunks), 0);
  device().chunk_digests(kStream, chunks, x.data(), words.data(), digests.data());
  finish();
  for (std::int64_t i = 0; i < chunks; ++i) {
    const auto chunk = std::span(x).subspan(static_cast<std::size_t>(i * kDigestChunkFloats),
                                            static_cast<std::size_t>(kDigestChunkFloats));
    const Digest expected = digest_of(std::as_bytes(chunk));
    CHECK(Digest{digests[2 * i + 1], digests[2 * i]} == expected);
  }
}

TEST_SUITE("gpu/cuda/digest") {
  TEST_CASE("chunks of any bits have the digests of the library") {
    Random random(test::seed("device digest"));
    for (const std::int64_t chunks : {1, 2, 3, 4, 5, 11}) {
      Numbers<float> x(static_cast<std::size_t>(chunks * kDigestChunkFloats));
      for (float& value : x)
        value = std::bit_cast<float>(static_cast<std::uint32_t>(random.integer(0, 0xffffffff)));
      check_chunks(x);
    }
  }

  TEST_CASE("patterns: equal words, zeros, ones, one bit in any place") {
    Random random(test::seed("device digest patterns"));
    for (const std::uint32_t word : {0U, 0xffffffffU, 0x80000000U, 1U, 0x3f800000U})
      check_chunks(Numbers<float>(2 * kDigestChunkFloats, std::bit_cast<float>(word)));
    for (int trial = 0; trial < 20; ++trial) {
      Numbers<float> x(3 * kDigestChunkFloats, 0.0f);
      const auto at = static_cast<std::size_t>(random.integer(0, std::ssize(x) - 1));
      x[at] = std::bit_cast<float>(1U << random.integer(0, 31));
      check_chunks(x);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
