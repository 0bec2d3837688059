// The work of the device after the local steps: reduction of buckets, the update, evaluation.
#include <caf/all.hpp>

#include <algorithm>

#include "actors/base/protocol/core/decisions.h"
#include "actors/worker/device/evaluation_run.h"
#include "actors/worker/shell/device_actor.h"
#include "proto/base/check.h"
#include "proto/base/kill_point.h"

namespace es::actors {

using worker::DataUnreadable;

// Returns the data. The places are the pool, the message, the memory of this worker, and a mapped
// segment of a peer.
Result<std::span<const std::byte>> DeviceState::find_bytes(const protocol::Bulk& bulk) {
  const auto all = [&](const void* at) {
    return std::span(static_cast<const std::byte*>(at), bulk.bytes);
  };
  if (bulk.device) return all(bulk.device.get());
  if (bulk.inline_bytes) return all(bulk.inline_bytes->data());
  if (gradients_)
    if (const float* own = gradients_->own(bulk)) return all(own);
  return peers_.read(bulk.segment, bulk.offset, bulk.bytes);
}

Result<const float*> DeviceState::find_floats(const protocol::Bulk& bulk, std::int64_t floats) {
  const std::uint64_t bytes_expected = static_cast<std::uint64_t>(floats) * sizeof(float);
  if (bulk.bytes != bytes_expected)
    return failure("bulk data of " + std::to_string(bulk.bytes) + " bytes, expected " +
                   std::to_string(bytes_expected));
  const auto bytes = find_bytes(bulk);
  if (!bytes) return bytes.error();
  return reinterpret_cast<const float*>(bytes->data());
}

void DeviceState::perform_effect(const worker::ReduceBucket& effect) {
  if (abandoned(effect.generation)) return;
  const protocol::Contrib* own = own_part(effect);
  // A single part covers all ranks, so it is the sum. If it belongs to this worker, that is the
  // only member, and no other worker reads it.
  if (effect.parts.size() == 1 && own != nullptr) return report_sum(effect, own->data);
  const std::int64_t floats = parts_->engine->buckets()[effect.bucket].floats();
  std::vector<gpu::GradientPart> parts;
  for (const protocol::Contrib& part : effect.parts) {
    const auto data = find_floats(part.data, floats);
    if (!data) return report(DataUnreadable{effect.generation, part.stamp.sender});
    parts.push_back({part.ranks, *data});
  }
  ES_CHECK(!effect.is_partial || own != nullptr);
  kill_point("reduce.before");
  const Instant begin = span_begin();
  const Result<protocol::Bulk> sum =
      effect.is_partial
          ? reduction_->add_to(own->data, effect.ranks, std::move(parts), *gradients_, host_copies_)
          : reduction_->sum(effect.bucket, std::move(parts), *gradients_, host_copies_);
  if (!sum) end_if_device_lost();
  if (!sum) return fail(sum.error().message);
  add_to_trace(tracing::SpanKind::kReduce, effect.step, effect.bucket, begin);
  kill_point("reduce.after");
  effect.is_partial ? report_partial_sum(effect, *sum) : report_sum(effect, *sum);
}

// A part of this worker; nullptr if there is none. No other worker reads it, so its memory can take
// a partial sum.
const protocol::Contrib* DeviceState::own_part(const worker::ReduceBucket& effect) const {
  const auto own = std::ranges::find_if(effect.parts, [this](const protocol::Contrib& part) {
    return part.stamp.sender == parts_->options.incarnation;
  });
  return own == effect.parts.end() ? nullptr : &*own;
}

void DeviceState::report_partial_sum(const worker::ReduceBucket& effect,
                                     const protocol::Bulk& data) {
  report(worker::PartialSumMade{{.stamp = {effect.generation, {}},
                                 .step = effect.step,
                                 .bucket = effect.bucket,
                                 .ranks = effect.ranks,
                                 .data = data,
                                 .results = {},
                                 .drain = false}});
}

void DeviceState::report_sum(const worker::ReduceBucket& effect, const protocol::Bulk& data) {
  report(worker::BucketReduced{{.stamp = {effect.generation, {}},
                                .step = effect.step,
                                .bucket = effect.bucket,
                                .data = data,
                                .results = {},
                                .drain = false}});
}

void DeviceState::copy_out(const CopyOut& wanted) {
  worker::SendPeer send = wanted.send;
  if (abandoned(protocol::stamp_of(send.message).generation) || !gradients_) return;
  if (!reduction_->copy_to_segments(send.message, *gradients_).ok()) end_if_device_lost();
  self_->send(control_, CopiedOut{std::move(send)});
}

// Allocates memory for data that comes from peers and goes to them, after everything else that a
// step needs has been allocated.
void DeviceState::provide_for_peers() {
  if (ranks_.size() == parts_->options.spec.max_p) return;
  if (!parts_->engine->provide_for_peers().ok()) end_if_device_lost();
}

void DeviceState::perform_effect(const worker::ApplyUpdate& effect) {
  const Instant begin = span_begin();
  gpu::Engine& engine = *parts_->engine;
  // Everything that can fail because of another process is done before the engine changes anything.
  // After DataUnreadable this worker still holds its version.
  std::vector<const float*> reduced;
  for (const protocol::Reduced& bucket : effect.buckets) {
    const auto data = find_floats(bucket.data, engine.buckets()[bucket.bucket].floats());
    if (!data) return report(DataUnreadable{effect.generation, bucket.stamp.sender});
    reduced.push_back(*data);
  }
  auto made = contexts_of(effect.results);
  if (!made) return fail(made.error().message);
  kill_point("update.before");
  // A checkpoint may still be reading the replica; it gets its copies before the update changes
  // them.
  held_->thaw();
  const Status status =
      engine.apply_update(reduced, std::move(made->first), protocol::reductions(effect.decisions));
  kill_point("update.after");
  if (!status.ok()) end_if_device_lost();
  if (!status.ok()) return fail(status.error().message);
  provide_for_peers();
  report_update(std::move(made->second), effect.decisions, effect.last, begin);
}

Result<DeviceState::Made> DeviceState::contexts_of(
    const std::vector<protocol::RankResult>& results) const {
  Made made;
  for (const protocol::RankResult& result : results) {
    auto context = gpu::decode_context(*result.context, parts_->engine->table().stat_floats());
    if (!context) return context.error();
    made.first.push_back(*std::move(context));
    made.second.loss_bits.push_back(result.loss_bits);
  }
  return made;
}

void DeviceState::report_update(protocol::LedgerLine line, const std::string& decisions, bool last,
                                Instant begin) {
  const gpu::Engine& engine = *parts_->engine;
  line.version = engine.version();
  // The digest of the parameters goes into the ledger with the losses. The head compares repeated
  // lines bit by bit.
  line.params = engine.params_digest();
  held_->set_params_digest(line.params);
  held_->set_decisions(decisions);
  // The digest of the whole state is computed for the last version only, because it needs the
  // optimizer state in host memory. A worker that holds a part of it is asked for it (DigestState).
  if (last && engine.holds_all()) {
    fetch_replica();
    line.state = engine.state_digest();
  }
  add_to_trace(tracing::SpanKind::kUpdate, line.version - 1, 0, begin);
  report(worker::UpdateApplied{std::move(line)});
  self_->send(control_, DeviceStats{engine.version(), results_.slice_seconds,
                                    in_seconds(clock_.spent(worker::StepClock::kSwitch)),
                                    in_seconds(clock_.spent(worker::StepClock::kWait)),
                                    tree_ ? tree_->peak_live_buffers() : 0});
}

// Returns the gradient slot in which an evaluation computes; nullptr if it needs none. The step
// before is committed, so the slot is free, as for a step (StartLocalSteps).
Result<float*> DeviceState::slot_for_evaluation(Generation generation) {
  if (parts_->engine->merges_on_device()) return nullptr;
  begin_generation(generation);
  // If the state of a job is sharded, memory is short, and an evaluation rarely needs all of it.
  return parts_->options.spec.shard.state == "on" ? gradients_->reserved_slot(0)
                                                  : gradients_->slot(0);
}

void DeviceState::perform_effect(const worker::RunEvaluation& effect) {
  if (abandoned(effect.generation)) return;
  const Instant begin = span_begin();
  const Result<float*> free_slot = slot_for_evaluation(effect.generation);
  if (!free_slot) return fail_for_gradients(free_slot.error());
  auto totals = worker::evaluate(*parts_->engine, parts_->options.spec, parts_->data->samples,
                                 parts_->inputs.get(), effect.version, *free_slot,
                                 [&] { return abandoned(effect.generation); });
  if (!totals) end_if_device_lost();
  if (!totals) return fail(totals.error());
  add_to_trace(tracing::SpanKind::kEvaluate, effect.version, 0, begin);
  // The generation was abandoned during the evaluation. After the round the core asks again.
  if (!*totals) return;
  report(
      worker::EvaluationDone{effect.generation, effect.version,
                             std::make_shared<const std::vector<std::byte>>(**std::move(totals))});
}

}  // namespace es::actors
