#include "actors/worker/state/version_io.h"

#include <algorithm>
#include <cstring>

#include "actors/worker/state/checkpoint_sections.h"
#include "actors/worker/state/initial_weights.h"
#include "gpu/est/est_context.h"

namespace es::actors::worker {
namespace {

template <class Array>
std::span<std::byte> writable_bytes_of(Array& buffer) {
  return {reinterpret_cast<std::byte*>(buffer.data()), buffer.bytes()};
}

bool has_base(const gpu::Engine& engine) {
  return engine.kept_floats() < engine.table().total_floats();
}

// The part of the parameters that a version keeps.
std::span<std::byte> kept_bytes(const gpu::Engine& engine, gpu::AlignedBuffer& params) {
  return writable_bytes_of(params).first(static_cast<std::size_t>(engine.kept_floats()) *
                                         sizeof(float));
}

// A replica without contexts whose arrays are to be filled. The parameters that a version does not
// keep are there: those of the engine, or, before it has any, those of version 0.
Result<gpu::Replica> unfilled_replica(gpu::Engine& engine, const JobSpec& spec, Version version) {
  gpu::Replica replica = gpu::empty_replica(engine.table(), engine.moment_count());
  replica.version = version;
  if (!has_base(engine)) return replica;
  if (engine.contexts().empty()) {
    ES_RETURN_IF_ERROR(engine.init_replica());
    ES_RETURN_IF_ERROR(load_initial_weights(engine, spec));
  }
  ES_RETURN_IF_ERROR(engine.fetch_replica());
  const std::int64_t kept = engine.kept_floats();
  std::copy_n(engine.replica().params.data() + kept, engine.table().total_floats() - kept,
              replica.params.data() + kept);
  return replica;
}

Status copy_bulk(const protocol::Bulk& bulk, SegmentCache& segments, std::span<std::byte> out) {
  if (bulk.bytes != out.size())
    return failure("state from a peer: " + std::to_string(bulk.bytes) + " bytes, expected " +
                   std::to_string(out.size()));
  if (bulk.inline_bytes) {
    std::memcpy(out.data(), bulk.inline_bytes->data(), out.size());
    return {};
  }
  auto bytes = segments.read(bulk.segment, bulk.offset, bulk.bytes);
  if (!bytes) return bytes.error();
  std::memcpy(out.data(), bytes->data(), out.size());
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

// Compares the frozen parameters of this job with those beside which the checkpoint was trained.
Status check_base(const gpu::Engine& engine, const JobSpec& spec,
                  const store::CheckpointReader& reader, const std::string& where,
                  const gpu::Replica& replica) {
  if (!has_base(engine)) return {};
  const auto bytes = reader.read(kBaseSection);
  if (!bytes) return bytes.error();
  const std::string expected(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const std::string found = gpu::frozen_digest(engine.table(), replica.params.data()).hex();
  if (found == expected) return {};
  return refused((spec.model.weights.empty() ? "model " + model_text(spec.model)
                                             : "model.weights = \"" + spec.model.weights + '"') +
                 ": the base has the digest " + found + ": allowed is " + expected +
                 ", beside which the adapters of " + where + " were trained");
}

Status read_replica(const gpu::Engine& engine, std::uint32_t max_p,
                    const store::CheckpointReader& reader, gpu::Replica& replica) {
  ES_RETURN_IF_ERROR(reader.read_into(kParamsSection, kept_bytes(engine, replica.params)));
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
  const std::int64_t moments =
      static_cast<std::int64_t>(engine.moment_count()) * engine.table().trained_floats();
  return static_cast<std::uint64_t>(engine.kept_floats() + moments) * sizeof(float);
}

protocol::State export_version(const gpu::Engine& engine, Segment& segment) {
  const gpu::Replica& replica = engine.replica();
  std::uint64_t offset = 0;
  const auto put = [&](const auto& array, std::int64_t floats) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(floats) * sizeof(float);
    std::memcpy(segment.data() + offset, array.data(), bytes);
    offset += bytes;
    return protocol::Bulk{segment.address(), offset - bytes, bytes, nullptr};
  };
  protocol::State state;
  state.version = replica.version;
  state.digests = digests_of(engine);
  state.parameters = put(replica.params, engine.kept_floats());
  for (const gpu::HeldArray& moment : replica.moments)
    state.moments.push_back(put(moment, moment.floats()));
  for (const gpu::EstContext& context : replica.contexts)
    state.contexts.push_back(std::make_shared<const std::vector<std::byte>>(gpu::encode(context)));
  return state;
}

Status import_version(gpu::Engine& engine, const JobSpec& spec, const protocol::State& state,
                      SegmentCache& segments) {
  auto made = unfilled_replica(engine, spec, state.version);
  if (!made) return refused(made.error().message);
  gpu::Replica& replica = *made;
  ES_RETURN_IF_ERROR(copy_bulk(state.parameters, segments, kept_bytes(engine, replica.params)));
  if (state.moments.size() != replica.moments.size())
    return failure("state from a peer: " + std::to_string(state.moments.size()) +
                   " arrays of the optimizer, expected " + std::to_string(replica.moments.size()));
  for (std::size_t i = 0; i < replica.moments.size(); ++i)
    ES_RETURN_IF_ERROR(
        copy_bulk(state.moments[i], segments, writable_bytes_of(replica.moments[i])));
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
  auto made = unfilled_replica(engine, spec, reader->head().version);
  if (!made) return refused(made.error().message);
  gpu::Replica& replica = *made;
  ES_RETURN_IF_ERROR(check_base(engine, spec, *reader, directory.string(), replica));
  ES_RETURN_IF_ERROR(read_replica(engine, spec.max_p, *reader, replica));
  const VersionDigests expected{reader->head().params_digest, reader->head().state_digest};
  return install_verified(engine, std::move(replica), expected, directory.string());
}

}  // namespace es::actors::worker
