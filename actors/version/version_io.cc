#include "actors/version/version_io.h"

#include <cstring>

#include "actors/version/checkpoint_sections.h"
#include "gpu/est/est_context.h"

namespace es::actors::worker {
namespace {

std::span<std::byte> writable_bytes_of(gpu::AlignedBuffer& buffer) {
  return {reinterpret_cast<std::byte*>(buffer.data()), buffer.bytes()};
}

gpu::Replica empty_replica(const gpu::Engine& engine, Version version) {
  gpu::Replica replica = gpu::empty_replica(engine.table(), engine.moment_count());
  replica.version = version;
  return replica;
}

Status copy_bulk(const protocol::Bulk& bulk, SegmentCache& segments, gpu::AlignedBuffer& out) {
  if (bulk.bytes != out.bytes())
    return failure("state from a peer: " + std::to_string(bulk.bytes) + " bytes, expected " +
                   std::to_string(out.bytes()));
  if (bulk.inline_bytes) {
    std::memcpy(out.data(), bulk.inline_bytes->data(), out.bytes());
    return {};
  }
  auto bytes = segments.read(bulk.segment, bulk.offset, bulk.bytes);
  if (!bytes) return bytes.error();
  std::memcpy(out.data(), bytes->data(), out.bytes());
  return {};
}

Status add_context(const gpu::Engine& engine, std::span<const std::byte> bytes,
                   gpu::Replica& replica) {
  auto context = gpu::decode_context(bytes, engine.table().stat_floats());
  if (!context) return context.error();
  replica.contexts.push_back(*std::move(context));
  return {};
}

// The digests cover every value of the replica, also the contexts and thus their number. So bytes
// that were damaged on the way are found before a step uses them.
Status install_verified(gpu::Engine& engine, gpu::Replica replica, const VersionDigests& expected,
                        const std::string& where) {
  const Digest params = gpu::params_digest(engine.table(), replica);
  if (params != expected.params)
    return failure(where + ": parameters have digest " + params.hex() + ", expected " +
                   expected.params.hex());
  const Digest state = gpu::state_digest(engine.table(), replica);
  if (state != expected.state)
    return failure(where + ": optimizer state and contexts have digest " + state.hex() +
                   ", expected " + expected.state.hex());
  return engine.install(std::move(replica));
}

Status read_replica(const gpu::Engine& engine, std::uint32_t max_p,
                    const store::CheckpointReader& reader, gpu::Replica& replica) {
  ES_RETURN_IF_ERROR(reader.read_into(kParamsSection, writable_bytes_of(replica.params)));
  for (std::size_t i = 0; i < replica.moments.size(); ++i)
    ES_RETURN_IF_ERROR(reader.read_into(moment_section(i), writable_bytes_of(replica.moments[i])));
  for (VirtualRank rank = 0; rank < max_p; ++rank) {
    auto bytes = reader.read(context_section(rank));
    if (!bytes) return bytes.error();
    ES_RETURN_IF_ERROR(add_context(engine, *bytes, replica));
  }
  return {};
}

}  // namespace

VersionDigests digests_of(const gpu::Engine& engine) {
  return {engine.params_digest(), engine.state_digest()};
}

std::uint64_t export_bytes(const gpu::Engine& engine) {
  return (1 + engine.moment_count()) * static_cast<std::uint64_t>(engine.table().total_floats()) *
         sizeof(float);
}

protocol::State export_version(const gpu::Engine& engine, Segment& segment) {
  const gpu::Replica& replica = engine.replica();
  std::uint64_t offset = 0;
  const auto put = [&](const gpu::AlignedBuffer& array) {
    std::memcpy(segment.data() + offset, array.data(), array.bytes());
    offset += array.bytes();
    return protocol::Bulk{segment.address(), offset - array.bytes(), array.bytes(), nullptr};
  };
  protocol::State state;
  state.version = replica.version;
  state.digests = digests_of(engine);
  state.parameters = put(replica.params);
  for (const gpu::AlignedBuffer& moment : replica.moments) state.moments.push_back(put(moment));
  for (const gpu::EstContext& context : replica.contexts)
    state.contexts.push_back(std::make_shared<const std::vector<std::byte>>(gpu::encode(context)));
  return state;
}

Status import_version(gpu::Engine& engine, const protocol::State& state, SegmentCache& segments) {
  gpu::Replica replica = empty_replica(engine, state.version);
  ES_RETURN_IF_ERROR(copy_bulk(state.parameters, segments, replica.params));
  if (state.moments.size() != replica.moments.size())
    return failure("state from a peer: " + std::to_string(state.moments.size()) +
                   " arrays of the optimizer, expected " + std::to_string(replica.moments.size()));
  for (std::size_t i = 0; i < replica.moments.size(); ++i)
    ES_RETURN_IF_ERROR(copy_bulk(state.moments[i], segments, replica.moments[i]));
  for (const protocol::Bytes& context : state.contexts)
    ES_RETURN_IF_ERROR(add_context(engine, *context, replica));
  return install_verified(engine, std::move(replica), state.digests, "state from a peer");
}

Status load_checkpoint(gpu::Engine& engine, const JobSpec& spec,
                       const std::filesystem::path& directory) {
  auto reader = store::CheckpointReader::open(directory);
  if (!reader) return reader.error();
  // The kernels are checked before the replica is read: with other kernels the next step would have
  // other bits, although all digests are right.
  const auto kernels = read_kernel_record(*reader, directory.string());
  if (!kernels) return kernels.error();
  ES_RETURN_IF_ERROR(
      check_kernels(*kernels, kernel_record(engine, spec.level), spec.stages, directory.string()));
  gpu::Replica replica = empty_replica(engine, reader->head().version);
  ES_RETURN_IF_ERROR(read_replica(engine, spec.max_p, *reader, replica));
  const VersionDigests expected{reader->head().params_digest, reader->head().state_digest};
  return install_verified(engine, std::move(replica), expected, directory.string());
}

}  // namespace es::actors::worker
