// The work of the device in a job with sharded state (actors/worker/core/worker_shards.cc): sums
// that it holds, shards that it updates, and parts of versions that it exports and takes over.
#include <caf/all.hpp>

#include <algorithm>
#include <cstring>

#include "actors/base/protocol/core/decisions.h"
#include "actors/worker/shell/device_actor.h"
#include "proto/base/check.h"
#include "proto/base/kill_point.h"

namespace es::actors {

using worker::DataUnreadable;

namespace {

std::uint64_t bytes_of(std::span<const float> floats) {
  return floats.size_bytes();
}

protocol::Bytes bytes_from(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

}  // namespace

// Null if the job does not clip.
protocol::Bytes DeviceState::squares_of(std::uint32_t bucket, const float* sum) {
  gpu::Engine& engine = *parts_->engine;
  if (!engine.clips()) return nullptr;
  std::vector<float> squares(gpu::params_of(engine.table(), engine.buckets()[bucket]).size());
  engine.sums_of_squares(bucket, sum, squares);
  return bytes_from(squares);
}

// The sums of squares of all buckets follow each other; those of parameters are in table order.
Result<std::vector<float>> DeviceState::squares_from(const protocol::Bytes& of_buckets) const {
  const gpu::Engine& engine = *parts_->engine;
  std::vector<float> squares(engine.clips() ? engine.table().trained().size() : 0);
  const std::size_t bytes = of_buckets ? of_buckets->size() : 0;
  if (bytes != squares.size() * sizeof(float))
    return failure("an update of shards has " + std::to_string(bytes) +
                   " bytes of sums of squares, expected " +
                   std::to_string(squares.size() * sizeof(float)));
  if (bytes == 0) return squares;
  const std::byte* from = of_buckets->data();
  for (const gpu::Bucket& bucket : engine.buckets()) {
    const gpu::ParamRange params = gpu::params_of(engine.table(), bucket);
    std::memcpy(squares.data() + params.begin, from, params.size() * sizeof(float));
    from += params.size() * sizeof(float);
  }
  return squares;
}

void DeviceState::perform_effect(const worker::HoldSum& effect) {
  if (abandoned(effect.generation)) return;
  const std::uint32_t bucket = effect.sum.bucket;
  const std::int64_t floats = parts_->engine->buckets()[bucket].floats();
  const auto from = find_floats(effect.sum.data, floats);
  if (!from) return report(DataUnreadable{effect.generation, effect.sum.stamp.sender});
  const Result<float*> sum = gradients_->sum(bucket, floats);
  if (!sum) return fail_for_gradients(sum.error());
  std::memcpy(*sum, *from, static_cast<std::size_t>(floats) * sizeof(float));
  kill_point("shards.held");
  protocol::Reduced held = effect.sum;
  held.stamp = {effect.generation, {}};
  held.data = gradients_->sum_bulk(bucket);
  report(worker::SumHeld{std::move(held), squares_of(bucket, *sum)});
}

// Sums of the step that was abandoned are kept, because other members may be ahead with it.
const float* DeviceState::held_sum(const protocol::Reduced& sum) const {
  if (gradients_)
    if (const float* own = gradients_->own(sum.data)) return own;
  for (const auto& [bucket, segment] : kept_sums_)
    if (segment->address() == sum.data.segment)
      return reinterpret_cast<const float*>(segment->data());
  return nullptr;
}

void DeviceState::perform_effect(const worker::UpdateShards& effect) {
  const Instant begin = span_begin();
  gpu::Engine& engine = *parts_->engine;
  std::vector<const float*> sums(engine.buckets().size());
  for (const protocol::Reduced& sum : effect.sums) {
    sums[sum.bucket] = held_sum(sum);
    ES_CHECK(sums[sum.bucket] != nullptr);
  }
  const auto squares = squares_from(effect.squares);
  if (!squares) return fail(squares.error().message);
  kill_point("shards.before");
  held_->thaw();
  const Status status = engine.update_held(sums, *squares, protocol::reductions(effect.decisions));
  kill_point("shards.after");
  if (!status.ok()) end_if_device_lost();
  if (!status.ok()) return fail(status.error().message);
  next_decisions_ = effect.decisions;
  worker::ShardsUpdated done{.step = effect.step, .parameters = share_updated(effect)};
  kept_sums_.clear();
  add_to_trace(tracing::SpanKind::kUpdate, effect.step, 0, begin);
  report(std::move(done));
}

// The parameters take the place of the sums, which no worker reads any more.
std::vector<protocol::Updated> DeviceState::share_updated(const worker::UpdateShards& effect) {
  std::vector<protocol::Updated> parameters;
  if (!effect.shared.empty()) fetch_replica();
  for (const protocol::Reduced& sum : effect.sums) {
    if (!std::ranges::binary_search(effect.shared, sum.bucket)) continue;
    const std::span<const float> updated = parts_->engine->bucket_params(sum.bucket);
    float* const to = gradients_->own(sum.data);
    std::memcpy(to, updated.data(), bytes_of(updated));
    protocol::Bulk data = sum.data;
    data.device.reset();
    data.in_host = true;
    parameters.push_back({.stamp = {effect.generation, {}},
                          .step = effect.step,
                          .bucket = sum.bucket,
                          .data = std::move(data)});
  }
  return parameters;
}

void DeviceState::perform_effect(const worker::CommitShards& effect) {
  const Instant begin = span_begin();
  gpu::Engine& engine = *parts_->engine;
  std::vector<const float*> parameters;
  for (const protocol::Updated& updated : effect.parameters) {
    const auto data = find_floats(updated.data, engine.buckets()[updated.bucket].floats());
    if (!data) return report(DataUnreadable{effect.generation, updated.stamp.sender});
    parameters.push_back(*data);
  }
  kill_point("shards.commit");
  held_->thaw();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    engine.replace_params(effect.parameters[i].bucket, parameters[i]);
  auto made = contexts_of(effect.results);
  if (!made) return fail(made.error().message);
  if (const Status status = engine.commit_update(std::move(made->first)); !status.ok())
    return fail(status.error().message);
  report_update(std::move(made->second), next_decisions_, effect.last, begin);
}

void DeviceState::perform_effect(const worker::LoadShards& effect) {
  kill_point("load.begin");
  const Instant begin = span_begin();
  gpu::Engine& engine = *parts_->engine;
  std::vector<worker::VersionPiece> pieces;
  for (const protocol::Shards& shards : effect.pieces) {
    const auto bytes = find_bytes(shards.data);
    if (!bytes) return report(DataUnreadable{effect.generation, shards.stamp.sender});
    pieces.push_back({.part = {shards.parameters, shards.frozen, shards.moments},
                      .digest = shards.digest,
                      .bytes = *bytes});
  }
  held_->thaw();
  held_->set_params_digest(std::nullopt);
  held_->set_decisions(effect.decisions);
  const std::vector<std::uint32_t> before = engine.held_buckets();
  if (const Status loaded = load_shards(effect, pieces); !loaded.ok()) {
    (void)engine.hold(before);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (digest_of(pieces[i].bytes) != pieces[i].digest)
        return report(DataUnreadable{effect.generation, effect.pieces[i].stamp.sender});
    return fail(loaded.error().message);
  }
  share_base();
  add_to_trace(tracing::SpanKind::kLoad, effect.version, 0, begin);
  kill_point("load.end");
  worker::VersionLoaded done{.version = effect.version, .line = {}};
  if (!effect.losses.empty()) {
    done.line = protocol::LedgerLine{
        .version = effect.version, .loss_bits = effect.losses, .params = engine.params_digest()};
    held_->set_params_digest(done.line->params);
    if (effect.last && engine.holds_all()) done.line->state = engine.state_digest();
  }
  report(std::move(done));
}

// Nothing of a version has changed if a piece has other bytes than its digest says.
Status DeviceState::load_shards(const worker::LoadShards& effect,
                                std::span<const worker::VersionPiece> pieces) {
  gpu::Engine& engine = *parts_->engine;
  ES_RETURN_IF_ERROR(engine.hold(effect.held));
  if (!effect.from_nothing) fetch_replica();
  if (effect.from_nothing)
    return worker::import_version(engine, parts_->options.spec,
                                  {.version = effect.version, .contexts = effect.contexts}, pieces);
  ES_RETURN_IF_ERROR(worker::import_pieces(engine, pieces));
  if (engine.version() == effect.version) return {};
  std::vector<gpu::EstContext> contexts;
  for (const protocol::Bytes& encoded : effect.contexts) {
    auto context = gpu::decode_context(*encoded, engine.table().stat_floats());
    if (!context) return context.error();
    contexts.push_back(*std::move(context));
  }
  return engine.commit_update(std::move(contexts));
}

void DeviceState::perform_effect(const worker::KeepShards& effect) {
  held_->thaw();
  if (const Status kept = parts_->engine->hold(effect.buckets); !kept.ok())
    fail(kept.error().message);
}

void DeviceState::perform_effect(const worker::ExportShards& effect) {
  if (abandoned(effect.generation)) return;
  begin_generation(effect.generation);
  kill_point("export.begin");
  gpu::Engine& engine = *parts_->engine;
  const protocol::FetchShards& wanted = effect.wanted;
  const worker::VersionPart part{wanted.parameters, wanted.frozen, wanted.moments};
  protocol::Shards shards{.version = wanted.version,
                          .parameters = wanted.parameters,
                          .moments = wanted.moments,
                          .rest = wanted.rest,
                          .frozen = wanted.frozen};
  fetch_replica();
  // A request for the rest alone has no bytes, and a segment has some.
  const std::uint64_t bytes = worker::part_bytes(engine, part);
  if (bytes == 0) {
    shards.data.inline_bytes = std::make_shared<const std::vector<std::byte>>();
    shards.digest = digest_of(std::span<const std::byte>());
  } else {
    auto segment = Segment::create(
        segment_label(parts_->options.job, parts_->options.incarnation, effect.generation,
                      "shards." + std::to_string(next_export_++)),
        bytes);
    if (!segment) return fail(segment.error().message);
    shards.digest = worker::export_part(engine, part, {(*segment)->data(), bytes});
    shards.data = {(*segment)->address(), 0, bytes, nullptr};
    exports_.push_back({wanted.stamp.sender, wanted.version, *std::move(segment)});
  }
  if (wanted.rest)
    for (const gpu::EstContext& context : engine.contexts())
      shards.contexts.push_back(
          std::make_shared<const std::vector<std::byte>>(gpu::encode(context)));
  report(worker::ShardsExported{effect.generation, wanted, std::move(shards)});
}

void DeviceState::perform_effect(const worker::DropShards& effect) {
  std::erase_if(exports_, [&](const Export& one) {
    return one.to == effect.of && one.version <= effect.version;
  });
}

// --- the whole state -----------------------------------------------------------------------------

// Uses the snapshot as soon as the moments that are elsewhere are supplied.
void DeviceState::when_supplied(UseOfSnapshot use) {
  waiting_.push_back({held_->freeze(), std::move(use)});
}

void DeviceState::perform_effect(const worker::DigestState& effect) {
  if (abandoned(effect.generation)) return;
  const auto answer = [this, effect](const worker::Snapshot& snapshot) {
    const auto digests = worker::digests_of(snapshot);
    if (!digests) return fail(digests.error().message);
    report(worker::StateDigested{effect.generation, effect.version, digests->state});
  };
  fetch_replica();
  parts_->engine->holds_all() ? answer(held_->freeze()) : when_supplied(answer);
}

void DeviceState::perform_effect(const worker::SupplyShards& effect) {
  auto waiting = std::exchange(waiting_, {});
  const gpu::Engine& engine = *parts_->engine;
  const auto moments =
      worker::SuppliedMoments::open(effect.pieces, engine.buckets(), engine.moment_count());
  for (Waiting& one : waiting) {
    if (one.snapshot.replica->version() != effect.version) {
      waiting_.push_back(std::move(one));
    } else if (effect.pieces.empty()) {
      one.snapshot.replica->give_up("it was not wanted any more");
    } else if (moments) {
      one.snapshot.other = [supplied = *moments](std::size_t moment, std::uint32_t bucket,
                                                 std::int64_t offset, std::span<float> out) {
        return supplied->read(moment, bucket, offset, out);
      };
      one.use(one.snapshot);
    } else {
      return report(DataUnreadable{effect.generation, effect.pieces.front().stamp.sender});
    }
  }
  if (!effect.pieces.empty()) report(worker::ShardsTaken{effect.generation, effect.version});
}

}  // namespace es::actors
