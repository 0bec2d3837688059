#pragma once
// Replica: the whole training state of one version, a plain value. Any one replica is a complete
// checkpoint.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/aligned_buffer.h"
#include "gpu/est/est_context.h"
#include "gpu/params/param_table.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"

namespace es::gpu {

// Everything flat has the layout of ParamTable and total_floats() floats.
struct Replica {
  Version version = 0;
  AlignedBuffer params;
  // State of the optimizer, Engine::moment_count() of them: sgd with momentum: its velocity; adam,
  // adamw: m, then v. Adam's powers of beta follow from the version and are not stored.
  std::vector<AlignedBuffer> moments;
  std::vector<EstContext> contexts;  // of all max_p ranks, in rank order, at this version
};

// Version 0 with zeros for `table` and without contexts. Throws NoMemory (aligned_buffer.h).
Replica empty_replica(const ParamTable& table, std::size_t moment_count);

// Digest of the parameters. An array is digested as its table (name and count of each parameter),
// the digests of its full chunks (digest_chunk.h; high, low), and the bytes of the rest, which is
// shorter than a chunk: nearly all of it can be done chunk by chunk, side by side, where the array
// is. Its padding, always +0, belongs to the bytes.
Digest params_digest(const ParamTable& table, const Replica& replica);

// The same of an array elsewhere. REQUIRES: chunks and rest are those of table.total_floats().
Digest array_digest(const ParamTable& table, std::span<const Digest> chunks,
                    std::span<const std::byte> rest);

// Digest of the rest of the state: every moment in the same form, then the encoded contexts of all
// ranks in rank order.
Digest state_digest(const ParamTable& table, const Replica& replica);

// The two digests above, of arrays that come piece by piece. Not thread-safe.
class ArrayDigest {
 public:
  // `table` must live as long as this.
  explicit ArrayDigest(const ParamTable& table) : table_(table) {}

  // The next bytes: arrays one after the other, each whole in the end, with its padding.
  void add(std::span<const std::byte> bytes);
  // What follows the moments in a state digest. REQUIRES: every array that was begun is whole.
  void add(std::span<const EstContext> contexts);
  Digest finish() const { return digest_.finish(); }

 private:
  std::size_t add_to_chunk(std::span<const std::byte> bytes);
  void end_chunk(std::span<const std::byte> bytes);

  const ParamTable& table_;
  DigestBuilder digest_;
  std::uint64_t came_ = 0;        // bytes of the array that comes, in chunks that have ended
  std::vector<std::byte> chunk_;  // what came of the next one
};

}  // namespace es::gpu
