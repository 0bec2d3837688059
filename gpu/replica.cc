#include "gpu/replica.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

std::span<const std::byte> bytes_of(const AlignedBuffer& array) {
  return std::as_bytes(std::span(array.data(), static_cast<std::size_t>(array.floats())));
}

}  // namespace

Replica empty_replica(const ParamTable& table, std::size_t moment_count) {
  Replica replica;
  replica.params = AlignedBuffer(table.total_floats(), "the parameters");
  for (std::size_t m = 0; m < moment_count; ++m)
    replica.moments.emplace_back(table.total_floats(), "a moment of the optimizer");
  return replica;
}

void ArrayDigest::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) bytes = bytes.subspan(add_to_param(bytes));
}

// Takes what belongs to the present parameter; returns how many bytes that was.
std::size_t ArrayDigest::add_to_param(std::span<const std::byte> bytes) {
  const ParamInfo& param = table_.params().at(param_);
  if (came_ == 0) {
    digest_.add_text(param.name);
    digest_.add_u64(static_cast<std::uint64_t>(param.count));
  }
  const std::int64_t end = table_.padded_end(static_cast<ParamId>(param_));
  const auto whole = static_cast<std::uint64_t>(end - param.offset) * sizeof(float);
  const auto counted = static_cast<std::uint64_t>(param.count) * sizeof(float);
  const std::size_t taken = std::min<std::uint64_t>(bytes.size(), whole - came_);
  if (came_ < counted) digest_.add(bytes.first(std::min<std::uint64_t>(taken, counted - came_)));
  came_ += taken;
  if (came_ == whole) {
    came_ = 0;
    param_ = (param_ + 1) % table_.params().size();
  }
  return taken;
}

void ArrayDigest::add(std::span<const EstContext> contexts) {
  ES_CHECK(param_ == 0 && came_ == 0);
  for (const EstContext& context : contexts) {
    const std::vector<std::byte> bytes = encode(context);
    digest_.add_u64(bytes.size());
    digest_.add(bytes);
  }
}

Digest params_digest(const ParamTable& table, const Replica& replica) {
  ArrayDigest digest(table);
  digest.add(bytes_of(replica.params));
  return digest.finish();
}

Digest state_digest(const ParamTable& table, const Replica& replica) {
  ArrayDigest digest(table);
  for (const AlignedBuffer& moment : replica.moments) digest.add(bytes_of(moment));
  digest.add(replica.contexts);
  return digest.finish();
}

}  // namespace es::gpu
