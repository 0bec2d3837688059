#include "gpu/replica.h"

#include <cstddef>
#include <span>

namespace es::gpu {
namespace {

void add_flat(DigestBuilder& digest, const ParamTable& table, const float* flat) {
  for (const ParamInfo& p : table.params()) {
    digest.add_text(p.name);
    digest.add_u64(static_cast<std::uint64_t>(p.count));
    digest.add(flat + p.offset, static_cast<std::size_t>(p.count) * sizeof(float));
  }
}

}  // namespace

Replica empty_replica(const ParamTable& table, std::size_t moment_count) {
  Replica replica;
  replica.params = AlignedBuffer(table.total_floats(), "the parameters");
  for (std::size_t m = 0; m < moment_count; ++m)
    replica.moments.emplace_back(table.total_floats(), "a moment of the optimizer");
  return replica;
}

Digest params_digest(const ParamTable& table, const Replica& replica) {
  DigestBuilder digest;
  add_flat(digest, table, replica.params.data());
  return digest.finish();
}

Digest state_digest(const ParamTable& table, const Replica& replica) {
  DigestBuilder digest;
  for (const AlignedBuffer& moment : replica.moments) add_flat(digest, table, moment.data());
  for (const EstContext& context : replica.contexts) {
    const std::vector<std::byte> bytes = encode(context);
    digest.add_u64(bytes.size());
    digest.add(bytes);
  }
  return digest.finish();
}

}  // namespace es::gpu
