#include "actors/worker/device/supplied_moments.h"

#include <cstring>
#include <utility>

#include "proto/base/digest.h"

namespace es::actors::worker {

Result<std::shared_ptr<SuppliedMoments>> SuppliedMoments::open(
    std::vector<protocol::Shards> pieces, const std::vector<gpu::Bucket>& buckets,
    std::size_t moments) {
  std::shared_ptr<SuppliedMoments> supplied(new SuppliedMoments(buckets, moments));
  for (protocol::Shards& shards : pieces) ES_RETURN_IF_ERROR(supplied->add(std::move(shards)));
  return supplied;
}

Status SuppliedMoments::add(protocol::Shards shards) {
  Piece piece{.shards = std::move(shards), .segment = nullptr, .bytes = {}};
  const protocol::Bulk& data = piece.shards.data;
  if (data.inline_bytes) {
    piece.bytes = *data.inline_bytes;
  } else {
    auto segment = Segment::open(data.segment);
    if (!segment) return segment.error();
    piece.segment = *std::move(segment);
    if (data.offset > piece.segment->bytes() || data.bytes > piece.segment->bytes() - data.offset)
      return failure("moments of another worker lie outside of its memory");
    piece.bytes = {std::as_const(*piece.segment).data() + data.offset, data.bytes};
  }
  std::uint64_t at = 0;
  for (const std::uint32_t bucket : piece.shards.moments) {
    if (bucket >= buckets_.size()) return failure("moments of a bucket that does not exist");
    places_[bucket] = piece.bytes.data() + at;
    at += static_cast<std::uint64_t>(buckets_[bucket].floats()) * sizeof(float) * moments_;
  }
  if (at != piece.bytes.size())
    return failure("moments of another worker have " + std::to_string(piece.bytes.size()) +
                   " bytes, expected " + std::to_string(at));
  pieces_.push_back(std::move(piece));
  return {};
}

Status SuppliedMoments::verify() {
  for (const Piece& piece : pieces_)
    if (digest_of(piece.bytes) != piece.shards.digest)
      return failure("moments of worker " + std::to_string(piece.shards.stamp.sender.value) +
                     " have another digest than it has computed");
  verified_ = true;
  return {};
}

Status SuppliedMoments::read(std::size_t moment, std::uint32_t bucket, std::int64_t offset,
                             std::span<float> out) {
  if (!verified_) ES_RETURN_IF_ERROR(verify());
  if (places_[bucket] == nullptr)
    return failure("the moments of bucket " + std::to_string(bucket) + " are missing");
  const std::int64_t first = static_cast<std::int64_t>(moment) * buckets_[bucket].floats() + offset;
  std::memcpy(out.data(), places_[bucket] + static_cast<std::uint64_t>(first) * sizeof(float),
              out.size_bytes());
  return {};
}

}  // namespace es::actors::worker
