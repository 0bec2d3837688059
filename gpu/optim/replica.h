#pragma once
// Replica: the training state of one version, as a plain value. A replica that holds all moments is
// a complete checkpoint. The moments may also be divided among the workers of a job: then each
// replica holds those of some buckets.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/base/aligned_buffer.h"
#include "gpu/base/held_array.h"
#include "gpu/est/est_context.h"
#include "gpu/params/param_table.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"

namespace es::gpu {

// The most arrays of an optimizer, with the average. Messages have this limit too
// (actors/base/protocol/wire/codec.cc).
constexpr std::size_t kMomentsMax = 8;

// All flat arrays have the layout of ParamTable. The parameters have total_floats() floats, the
// other arrays trained_floats(): frozen parameters have no moments.
struct Replica {
  Version version = 0;
  AlignedBuffer params;
  // Arrays of the optimizer; their number is Engine::moment_count(). sgd with momentum: the
  // velocity. adam and adamw: m, then v. The last one is the average of the parameters, if the job
  // has one (OptimizerSpec::ema). The powers of Adam's betas follow from the version and are not
  // stored.
  // All of them hold the same ranges.
  std::vector<HeldArray> moments;
  std::vector<EstContext> contexts;  // contexts of all max_p ranks at this version, in rank order
};

// Returns a replica of version 0 with arrays of zeros for `table` and without contexts, which holds
// all moments, or those of these ranges (HeldArray::hold()). Throws NoMemory (aligned_buffer.h).
Replica empty_replica(const ParamTable& table, std::size_t moment_count);
Replica empty_replica(const ParamTable& table, std::size_t moment_count,
                      std::span<const FloatRange> held);

// Returns the digest of the frozen parameters, which no update changes.
Digest frozen_digest(const ParamTable& table, const float* params);

// Returns the digest of the parameters. The input of the digest of an array is its table (name and
// count of each parameter), then the digests of its full chunks (digest_chunk.h; the high word,
// then the low word), then the bytes of the rest, which is shorter than a chunk. So nearly all of
// the work can be done chunk by chunk and in parallel where the array is. The padding of the array,
// always +0, belongs to its bytes. If the model has frozen parameters, their digest `frozen`
// follows.
Digest params_digest(const ParamTable& table, const Replica& replica, const Digest& frozen);
Digest params_digest(const ParamTable& table, const Replica& replica);  // computes `frozen` too

// Returns the same digest for an array that is elsewhere. REQUIRES: `chunks` and `rest` are those
// of an array of table.trained_floats() floats.
Digest array_digest(const ParamTable& table, std::span<const Digest> chunks,
                    std::span<const std::byte> rest, const Digest& frozen);

// Returns the digest of the rest of the state: every moment in the form above, then the encoded
// contexts of all ranks in rank order. REQUIRES: the replica holds all moments.
Digest state_digest(const ParamTable& table, const Replica& replica);

// Computes the two digests above for arrays that arrive piece by piece. Not thread-safe.
class ArrayDigest {
 public:
  // `table` must outlive this object.
  explicit ArrayDigest(const ParamTable& table) : table_(table) {}

  // Adds the next bytes. The arrays follow each other, and each must arrive completely, with its
  // padding. Only the part that is trained belongs to an array.
  void add(std::span<const std::byte> bytes);
  // Adds the contexts, which follow the moments in a state digest. REQUIRES: every array that was
  // begun is complete.
  void add(std::span<const EstContext> contexts);
  // Adds the digest of frozen parameters, if the model has any. REQUIRES: as add() of contexts.
  void add_frozen(const Digest& frozen);
  Digest finish() const { return digest_.finish(); }

 private:
  std::size_t add_to_chunk(std::span<const std::byte> bytes);
  void end_chunk(std::span<const std::byte> bytes);

  const ParamTable& table_;
  DigestBuilder digest_;
  std::uint64_t came_ = 0;        // bytes of the current array that belong to finished chunks
  std::vector<std::byte> chunk_;  // bytes of the chunk that is incomplete
};

}  // namespace es::gpu
