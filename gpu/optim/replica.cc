#include "gpu/optim/replica.h"

#include <algorithm>

#include "gpu/base/digest_chunk.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// The part of an array that is trained.
template <class Array>
std::span<const std::byte> bytes_of(const ParamTable& table, const Array& array) {
  return std::as_bytes(std::span(array.data(), static_cast<std::size_t>(table.trained_floats())));
}

constexpr std::uint64_t kChunkBytes = kDigestChunkBytes;

std::uint64_t array_bytes(const ParamTable& table) {
  return static_cast<std::uint64_t>(table.trained_floats()) * sizeof(float);
}

bool has_frozen(const ParamTable& table) {
  return table.trained_floats() < table.total_floats();
}

void add_table(const ParamTable& table, DigestBuilder& digest) {
  for (const ParamInfo& param : table.params()) {
    digest.add_text(param.name);
    digest.add_u64(static_cast<std::uint64_t>(param.count));
  }
}

void add_digest(const Digest& part, DigestBuilder& digest) {
  digest.add_u64(part.high);
  digest.add_u64(part.low);
}

}  // namespace

Replica empty_replica(const ParamTable& table, std::size_t moment_count) {
  const FloatRange all{0, table.trained_floats()};
  return empty_replica(table, moment_count, std::span(&all, all.floats() == 0 ? 0 : 1));
}

Replica empty_replica(const ParamTable& table, std::size_t moment_count,
                      std::span<const FloatRange> held) {
  Replica replica;
  replica.params = AlignedBuffer(table.total_floats(), "the parameters");
  for (std::size_t m = 0; m < moment_count; ++m)
    replica.moments.emplace_back(table.trained_floats(), held, "a moment of the optimizer");
  return replica;
}

void ArrayDigest::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) bytes = bytes.subspan(add_to_chunk(bytes));
}

// Consumes the bytes that belong to the current chunk, or to the rest of the array, and returns
// their number.
std::size_t ArrayDigest::add_to_chunk(std::span<const std::byte> bytes) {
  // These are the first bytes of an array. Its names and sizes come first, so that equal bytes of
  // two different models have different digests.
  if (came_ == 0 && chunk_.empty()) add_table(table_, digest_);
  const std::uint64_t size = std::min(kChunkBytes, array_bytes(table_) - came_);
  const std::size_t taken = std::min<std::uint64_t>(bytes.size(), size - chunk_.size());
  // A whole chunk is digested where it lies, without a copy into `chunk_`.
  if (taken == size) {
    end_chunk(bytes.first(taken));
    return taken;
  }
  chunk_.insert(chunk_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
  if (chunk_.size() == size) {
    end_chunk(chunk_);
    chunk_.clear();
  }
  return taken;
}

void ArrayDigest::end_chunk(std::span<const std::byte> bytes) {
  // A full chunk is represented by its own digest, which a device can compute where the chunk is.
  // The rest of the array is shorter than a chunk and is added as bytes (array_digest()).
  if (bytes.size() == kChunkBytes) {
    add_digest(digest_of(bytes), digest_);
  } else {
    digest_.add(bytes);
  }
  came_ += bytes.size();
  // The next byte belongs to the next array.
  if (came_ == array_bytes(table_)) came_ = 0;
}

void ArrayDigest::add(std::span<const EstContext> contexts) {
  ES_CHECK(came_ == 0 && chunk_.empty());
  // Each encoding is preceded by its length, so the division into contexts belongs to the digest.
  for (const EstContext& context : contexts) {
    const std::vector<std::byte> bytes = encode(context);
    digest_.add_u64(bytes.size());
    digest_.add(bytes);
  }
}

void ArrayDigest::add_frozen(const Digest& frozen) {
  ES_CHECK(came_ == 0 && chunk_.empty());
  if (has_frozen(table_)) add_digest(frozen, digest_);
}

Digest array_digest(const ParamTable& table, std::span<const Digest> chunks,
                    std::span<const std::byte> rest, const Digest& frozen) {
  ES_CHECK(chunks.size() * kChunkBytes + rest.size() == array_bytes(table));
  DigestBuilder digest;
  add_table(table, digest);
  for (const Digest& chunk : chunks) add_digest(chunk, digest);
  digest.add(rest);
  if (has_frozen(table)) add_digest(frozen, digest);
  return digest.finish();
}

Digest frozen_digest(const ParamTable& table, const float* params) {
  const auto floats = static_cast<std::size_t>(table.total_floats() - table.trained_floats());
  return digest_of(std::as_bytes(std::span(params + table.trained_floats(), floats)));
}

Digest params_digest(const ParamTable& table, const Replica& replica, const Digest& frozen) {
  ArrayDigest digest(table);
  digest.add(bytes_of(table, replica.params));
  digest.add_frozen(frozen);
  return digest.finish();
}

Digest params_digest(const ParamTable& table, const Replica& replica) {
  return params_digest(table, replica, frozen_digest(table, replica.params.data()));
}

Digest state_digest(const ParamTable& table, const Replica& replica) {
  ArrayDigest digest(table);
  for (const HeldArray& moment : replica.moments) {
    ES_CHECK(moment.holds_all());
    digest.add(bytes_of(table, moment));
  }
  digest.add(replica.contexts);
  return digest.finish();
}

}  // namespace es::gpu
