#include "actors/worker/state/version_io.h"

#include <algorithm>
#include <cstring>

#include "actors/worker/state/checkpoint_sections.h"
#include "actors/worker/state/initial_weights.h"
#include "gpu/est/est_context.h"
#include "proto/base/check.h"

namespace es::actors::worker {
namespace {

const std::string kFromPeer = "state from a peer";

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
  gpu::Replica replica = gpu::empty_replica(engine.table(), engine.moment_count(), engine.held());
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
    return failure(kFromPeer + ": " + std::to_string(bulk.bytes) + " bytes, expected " +
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

Status check_digest(const std::string& what, const Digest& found, const Digest& expected) {
  if (found == expected) return {};
  return failure(what + " have digest " + found.hex() + ", expected " + expected.hex());
}

Status check_params(const gpu::Engine& engine, const gpu::Replica& replica, const Digest& expected,
                    const std::string& where) {
  return check_digest(where + ": parameters", gpu::params_digest(engine.table(), replica),
                      expected);
}

Status check_state(const Digest& found, const Digest& expected, const std::string& where) {
  return check_digest(where + ": optimizer state and contexts", found, expected);
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

// Copies the bytes from `offset` on of an array as far as they are held.
void copy_held(std::uint64_t offset, std::span<const std::byte> bytes, gpu::HeldArray& array) {
  for (const gpu::FloatRange& range : array.held()) {
    const std::uint64_t begin = std::max<std::uint64_t>(range.begin * sizeof(float), offset);
    const std::uint64_t end =
        std::min<std::uint64_t>(range.end * sizeof(float), offset + bytes.size());
    if (begin < end)
      std::memcpy(writable_bytes_of(array).data() + begin, bytes.data() + (begin - offset),
                  end - begin);
  }
}

// Reads an array as far as it is held, and adds all of it to the digest.
Status read_moment(const store::CheckpointReader& reader, const std::string& section,
                   gpu::HeldArray& moment, gpu::ArrayDigest& digest) {
  const std::span<std::byte> bytes = writable_bytes_of(moment);
  if (!moment.holds_all())
    return reader.visit(section, bytes.size(),
                        [&](std::uint64_t offset, std::span<const std::byte> block) {
                          digest.add(block);
                          copy_held(offset, block, moment);
                        });
  ES_RETURN_IF_ERROR(reader.read_into(section, bytes));
  digest.add(bytes);
  return {};
}

// Returns the digest of the optimizer's state and the contexts.
Result<Digest> read_replica(const gpu::Engine& engine, std::uint32_t max_p,
                            const store::CheckpointReader& reader, gpu::Replica& replica) {
  gpu::ArrayDigest state(engine.table());
  ES_RETURN_IF_ERROR(reader.read_into(kParamsSection, kept_bytes(engine, replica.params)));
  for (std::size_t i = 0; i < replica.moments.size(); ++i)
    ES_RETURN_IF_ERROR(read_moment(reader, moment_section(i), replica.moments[i], state));
  for (VirtualRank rank = 0; rank < max_p; ++rank) {
    auto bytes = reader.read(context_section(rank));
    if (!bytes) return bytes.error();
    ES_RETURN_IF_ERROR(add_context(engine, *bytes, replica));
  }
  state.add(replica.contexts);
  return state.finish();
}

// Floats of one array that are in a part: array 0 are the parameters, m + 1 is moment m.
struct PartRun {
  std::size_t array = 0;
  std::uint32_t bucket = 0;  // of frozen parameters, the number of buckets
  gpu::FloatRange floats;
  std::size_t bytes() const { return static_cast<std::size_t>(floats.floats()) * sizeof(float); }
};

// In the order of the bytes.
std::vector<PartRun> runs_of(const gpu::Engine& engine, const VersionPart& part) {
  const std::vector<gpu::Bucket>& buckets = engine.buckets();
  std::vector<PartRun> runs;
  for (const std::uint32_t b : part.params)
    runs.push_back({0, b, {buckets[b].begin, buckets[b].end}});
  if (part.frozen)
    runs.push_back({0,
                    static_cast<std::uint32_t>(buckets.size()),
                    {engine.table().trained_floats(), engine.kept_floats()}});
  for (const std::uint32_t b : part.moments)
    for (std::size_t m = 0; m < engine.moment_count(); ++m)
      runs.push_back({m + 1, b, {buckets[b].begin, buckets[b].end}});
  return runs;
}

std::span<const std::byte> bytes_of(const gpu::Engine& engine, const PartRun& run) {
  ES_CHECK(run.array == 0 || engine.holds(run.bucket));
  const gpu::Replica& replica = engine.replica();
  const float* const array =
      run.array == 0 ? replica.params.data() : replica.moments[run.array - 1].data();
  return std::as_bytes(
      std::span(array + run.floats.begin, static_cast<std::size_t>(run.floats.floats())));
}

Error bad_piece(const std::string& what) {
  return failure(kFromPeer + ": " + what);
}

Status check_buckets(const gpu::Engine& engine, const std::vector<std::uint32_t>& buckets) {
  const std::size_t count = engine.buckets().size();
  for (std::size_t i = 0; i < buckets.size(); ++i)
    if (buckets[i] >= count || (i != 0 && buckets[i] <= buckets[i - 1]))
      return bad_piece("bucket " + std::to_string(buckets[i]) + ", expected an ascending list of " +
                       "buckets below " + std::to_string(count));
  return {};
}

Status check_piece(const gpu::Engine& engine, const VersionPiece& piece) {
  ES_RETURN_IF_ERROR(check_buckets(engine, piece.part.params));
  ES_RETURN_IF_ERROR(check_buckets(engine, piece.part.moments));
  for (const std::uint32_t bucket : piece.part.moments)
    if (!engine.holds(bucket))
      return bad_piece("moments of bucket " + std::to_string(bucket) +
                       ", which this worker does not hold");
  const std::uint64_t bytes = part_bytes(engine, piece.part);
  if (piece.bytes.size() != bytes)
    return bad_piece("a piece of " + std::to_string(piece.bytes.size()) + " bytes, expected " +
                     std::to_string(bytes));
  return check_digest(kFromPeer + ": the bytes of a piece", digest_of(piece.bytes), piece.digest);
}

Status check_once(const std::string& what, std::size_t times) {
  if (times == 1) return {};
  return bad_piece(what + " come " + std::to_string(times) + " times, expected once");
}

// Whether the pieces together are a version, as far as the engine holds it.
Status check_complete(const gpu::Engine& engine, std::span<const VersionPiece> pieces) {
  const std::size_t buckets = engine.buckets().size();
  std::vector<std::size_t> params(buckets, 0), moments(buckets, 0);
  std::size_t frozen = 0;
  for (const VersionPiece& piece : pieces) {
    for (const std::uint32_t bucket : piece.part.params) ++params[bucket];
    for (const std::uint32_t bucket : piece.part.moments) ++moments[bucket];
    frozen += piece.part.frozen ? 1 : 0;
  }
  for (std::uint32_t b = 0; b < buckets; ++b) {
    const std::string name = " of bucket " + std::to_string(b);
    ES_RETURN_IF_ERROR(check_once("parameters" + name, params[b]));
    if (engine.holds(b) && engine.moment_count() != 0)
      ES_RETURN_IF_ERROR(check_once("moments" + name, moments[b]));
  }
  if (engine.kept_floats() > engine.table().trained_floats())
    return check_once("frozen parameters", frozen);
  return {};
}

// Calls visit(run, first float of its values) for each run of the piece.
template <class Visit>
void visit_piece(const gpu::Engine& engine, const VersionPiece& piece, Visit&& visit) {
  std::span<const std::byte> bytes = piece.bytes;
  for (const PartRun& run : runs_of(engine, piece.part)) {
    visit(run, reinterpret_cast<const float*>(bytes.data()));
    bytes = bytes.subspan(run.bytes());
  }
}

void fill_from(const gpu::Engine& engine, const VersionPiece& piece, gpu::Replica& replica) {
  visit_piece(engine, piece, [&](const PartRun& run, const float* values) {
    float* const array =
        run.array == 0 ? replica.params.data() : replica.moments[run.array - 1].data();
    if (run.bytes() != 0) std::memcpy(array + run.floats.begin, values, run.bytes());
  });
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
  ES_CHECK(engine.holds_all());
  auto made = unfilled_replica(engine, spec, state.version);
  if (!made) return refused(made.error().message);
  gpu::Replica& replica = *made;
  ES_RETURN_IF_ERROR(copy_bulk(state.parameters, segments, kept_bytes(engine, replica.params)));
  if (state.moments.size() != replica.moments.size())
    return failure(kFromPeer + ": " + std::to_string(state.moments.size()) +
                   " arrays of the optimizer, expected " + std::to_string(replica.moments.size()));
  for (std::size_t i = 0; i < replica.moments.size(); ++i)
    ES_RETURN_IF_ERROR(
        copy_bulk(state.moments[i], segments, writable_bytes_of(replica.moments[i])));
  for (const protocol::Bytes& context : state.contexts)
    ES_RETURN_IF_ERROR(add_context(engine, *context, replica));
  // The digests cover every value of the replica, also the contexts and thus their number. So bytes
  // that were damaged on the way are found before a step uses them.
  ES_RETURN_IF_ERROR(check_params(engine, replica, state.digests.params, kFromPeer));
  ES_RETURN_IF_ERROR(
      check_state(gpu::state_digest(engine.table(), replica), state.digests.state, kFromPeer));
  return engine.install(std::move(replica));
}

std::uint64_t part_bytes(const gpu::Engine& engine, const VersionPart& part) {
  std::uint64_t bytes = 0;
  for (const PartRun& run : runs_of(engine, part)) bytes += run.bytes();
  return bytes;
}

Digest export_part(const gpu::Engine& engine, const VersionPart& part, std::span<std::byte> out) {
  ES_CHECK(out.size() == part_bytes(engine, part));
  std::span<std::byte> rest = out;
  for (const PartRun& run : runs_of(engine, part)) {
    std::ranges::copy(bytes_of(engine, run), rest.begin());
    rest = rest.subspan(run.bytes());
  }
  return digest_of(out);
}

Status import_version(gpu::Engine& engine, const JobSpec& spec, const VersionFrame& frame,
                      std::span<const VersionPiece> pieces) {
  for (const VersionPiece& piece : pieces) ES_RETURN_IF_ERROR(check_piece(engine, piece));
  ES_RETURN_IF_ERROR(check_complete(engine, pieces));
  auto made = unfilled_replica(engine, spec, frame.version);
  if (!made) return refused(made.error().message);
  gpu::Replica& replica = *made;
  for (const VersionPiece& piece : pieces) fill_from(engine, piece, replica);
  for (const protocol::Bytes& context : frame.contexts)
    ES_RETURN_IF_ERROR(add_context(engine, *context, replica));
  return engine.install(std::move(replica));
}

Status import_pieces(gpu::Engine& engine, std::span<const VersionPiece> pieces) {
  for (const VersionPiece& piece : pieces) {
    ES_CHECK(!piece.part.frozen);
    ES_RETURN_IF_ERROR(check_piece(engine, piece));
  }
  for (const VersionPiece& piece : pieces)
    visit_piece(engine, piece, [&](const PartRun& run, const float* values) {
      if (run.array == 0)
        engine.replace_params(run.bucket, values);
      else
        engine.replace_moments(run.bucket, run.array - 1, values);
    });
  return {};
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
  const auto state = read_replica(engine, spec.max_p, *reader, replica);
  if (!state) return state.error();
  ES_RETURN_IF_ERROR(
      check_params(engine, replica, reader->head().params_digest, directory.string()));
  ES_RETURN_IF_ERROR(check_state(*state, reader->head().state_digest, directory.string()));
  return engine.install(std::move(replica));
}

}  // namespace es::actors::worker
