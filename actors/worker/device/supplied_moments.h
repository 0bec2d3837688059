#pragma once
// The moments of one version that other workers hold, for a snapshot of it. They are in the memory
// of these workers or of this process; the object keeps them reachable.
//
// Made on the device thread, read on the thread that writes the snapshot.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/base/data_plane/segment.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/worker/device/snapshot.h"
#include "gpu/params/buckets.h"

namespace es::actors::worker {

class SuppliedMoments {
 public:
  // Error (failure): a piece cannot be mapped, or has another number of bytes than `moments` arrays
  // of its buckets.
  static Result<std::shared_ptr<SuppliedMoments>> open(std::vector<protocol::Shards> pieces,
                                                       const std::vector<gpu::Bucket>& buckets,
                                                       std::size_t moments);

  // As OtherMoments. The first call verifies the digests of all pieces.
  Status read(std::size_t moment, std::uint32_t bucket, std::int64_t offset, std::span<float> out);

 private:
  struct Piece {
    protocol::Shards shards;
    std::unique_ptr<Segment> segment;  // nullptr: the bytes are in the message
    std::span<const std::byte> bytes;
  };
  SuppliedMoments(const std::vector<gpu::Bucket>& buckets, std::size_t moments)
      : buckets_(buckets), moments_(moments), places_(buckets.size()) {}
  Status add(protocol::Shards shards);
  Status verify();

  const std::vector<gpu::Bucket>& buckets_;  // of the engine
  std::size_t moments_;
  std::vector<Piece> pieces_;
  std::vector<const std::byte*> places_;  // by bucket: its first array; nullptr: it is not here
  bool verified_ = false;
};

}  // namespace es::actors::worker
