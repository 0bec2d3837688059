// The work of the device after the local steps: reduction of buckets, the update, evaluation.
#include <caf/all.hpp>

#include <algorithm>

#include "actors/worker/core/bulk_pull.h"
#include "actors/worker/shell/device_actor.h"
#include "proto/base/kill_point.h"

namespace es::actors {

using worker::BucketReduced;
using worker::DataUnreadable;

namespace {

std::uint64_t bytes_of(std::int64_t floats) {
  return static_cast<std::uint64_t>(floats) * sizeof(float);
}

}  // namespace

// Returns the address of the data. The places are the pool, the message, the memory of this worker,
// and a mapped segment of a peer.
Result<const float*> DeviceState::find_floats(const protocol::Bulk& bulk, std::int64_t floats) {
  if (bulk.bytes != bytes_of(floats))
    return failure("bulk data of " + std::to_string(bulk.bytes) + " bytes, expected " +
                   std::to_string(bytes_of(floats)));
  if (bulk.device) return reinterpret_cast<const float*>(bulk.device.get());
  if (bulk.inline_bytes) return reinterpret_cast<const float*>(bulk.inline_bytes->data());
  if (gradients_)
    if (const float* own = gradients_->own(bulk)) return own;
  auto bytes = peers_.read(bulk.segment, bulk.offset, bulk.bytes);
  if (!bytes) return bytes.error();
  return reinterpret_cast<const float*>(bytes->data());
}

void DeviceState::perform_effect(const worker::ReduceBucket& effect) {
  if (abandoned(effect.generation)) return;
  // A single part covers all ranks, so it is the sum. It belongs to the only member, and no other
  // worker reads it.
  if (effect.parts.size() == 1)
    return report(
        BucketReduced{effect.generation, effect.step, effect.bucket, effect.parts.front().data});
  const std::int64_t floats = parts_->engine->buckets()[effect.bucket].floats();
  std::vector<worker::PartData> parts;
  for (const worker::Part& part : effect.parts) {
    const auto data = find_floats(part.data, floats);
    if (!data) return report(DataUnreadable{effect.generation, part.from});
    parts.push_back({part.ranks, *data});
  }
  kill_point("reduce.before");
  const Result<protocol::Bulk> sum = sum_parts(effect.bucket, parts);
  if (!sum) end_if_device_lost();
  if (!sum) return fail(sum.error().message);
  kill_point("reduce.after");
  report(BucketReduced{effect.generation, effect.step, effect.bucket, *sum});
}

bool DeviceState::is_on_device(const float* data) const {
  gpu::cuda::DeviceReduction* const reduction = parts_->engine->reduction();
  return reduction != nullptr && reduction->pool()->contains(data);
}

// Sums on the device if a part is there and the pool has room for the sum, otherwise on the host.
Result<protocol::Bulk> DeviceState::sum_parts(std::uint32_t bucket,
                                              std::vector<worker::PartData>& parts) {
  const bool any = std::any_of(parts.begin(), parts.end(),
                               [this](const auto& part) { return is_on_device(part.data); });
  if (!any) return sum_on_host(bucket, parts);
  const std::int64_t floats = parts_->engine->buckets()[bucket].floats();
  const auto out = parts_->engine->reduction()->pool()->take(bytes_of(floats));
  return out ? sum_on_device(bucket, parts, out) : sum_on_host(bucket, parts);
}

Result<protocol::Bulk> DeviceState::sum_on_device(std::uint32_t bucket,
                                                  const std::vector<worker::PartData>& parts,
                                                  const gpu::cuda::DevicePool::Block& out) {
  gpu::Engine& engine = *parts_->engine;
  gpu::cuda::DeviceReduction& device = *engine.reduction();
  const std::int64_t floats = engine.buckets()[bucket].floats();
  const Result<float*> host = gradients_->sum(bucket, floats);
  if (!host) return host.error();
  auto* const sum = reinterpret_cast<float*>(out.get());
  worker::reduce_parts(engine.gradient_order(), parts_->options.spec.max_p, parts, floats,
                       device.workspace(), sum, device);
  if (host_copies_) device.copy_out(*host, sum, floats);
  ES_RETURN_IF_ERROR(device.synchronise());
  kill_point("reduce.on_device");
  protocol::Bulk bulk = gradients_->sum_bulk(bucket);
  bulk.device = out;
  bulk.in_host = host_copies_;
  return bulk;
}

Result<protocol::Bulk> DeviceState::sum_on_host(std::uint32_t bucket,
                                                std::vector<worker::PartData>& parts) {
  gpu::Engine& engine = *parts_->engine;
  const std::int64_t floats = engine.buckets()[bucket].floats();
  std::vector<gpu::AlignedBuffer> copies;
  for (worker::PartData& part : parts)
    if (is_on_device(part.data)) part.data = copies.emplace_back(copy_of(part.data, floats)).data();
  const Result<float*> sum = gradients_->sum(bucket, floats);
  if (!sum) return sum.error();
  ES_RETURN_IF_ERROR(engine.device_status());
  gpu::HostAdder host(engine.kernels());
  worker::reduce_parts(engine.gradient_order(), parts_->options.spec.max_p, parts, floats,
                       reduce_workspace_.data(), *sum, host);
  return gradients_->sum_bulk(bucket);
}

// Copies a gradient to host memory. The caller checks the status of the device for errors.
gpu::AlignedBuffer DeviceState::copy_of(const float* device, std::int64_t floats) {
  auto copy = gpu::AlignedBuffer::uninitialised(floats, "a copy of a gradient");
  parts_->engine->reduction()->copy_out(copy.data(), device, floats);
  (void)parts_->engine->reduction()->synchronise();
  return copy;
}

void DeviceState::copy_out(const CopyOut& wanted) {
  worker::SendPeer send = wanted.send;
  if (abandoned(protocol::stamp_of(send.message).generation) || !gradients_) return;
  for (protocol::Bulk* const bulk : worker::bulks_of(send.message)) {
    if (bulk->in_host) continue;
    float* const host = gradients_->own(*bulk);
    ES_CHECK(host != nullptr);
    parts_->engine->reduction()->copy_out(host, reinterpret_cast<const float*>(bulk->device.get()),
                                          static_cast<std::int64_t>(bulk->bytes / sizeof(float)));
    bulk->in_host = true;
  }
  const Status copied = parts_->engine->reduction()->synchronise();
  if (!copied.ok()) end_if_device_lost();
  self_->send(control_, CopiedOut{std::move(send)});
}

// Allocates memory for data that comes from peers and goes to them, after everything else that a
// step needs has been allocated.
void DeviceState::provide_for_peers() {
  if (ranks_.size() == parts_->options.spec.max_p) return;
  if (!parts_->engine->provide_for_peers().ok()) end_if_device_lost();
}

void DeviceState::perform_effect(const worker::ApplyUpdate& effect) {
  gpu::Engine& engine = *parts_->engine;
  std::vector<const float*> reduced;
  for (const protocol::Reduced& bucket : effect.buckets) {
    const auto data = find_floats(bucket.data, engine.buckets()[bucket.bucket].floats());
    if (!data) return report(DataUnreadable{effect.generation, bucket.stamp.sender});
    reduced.push_back(*data);
  }
  std::vector<gpu::EstContext> contexts;
  protocol::LedgerLine line;
  for (const protocol::RankResult& result : effect.results) {
    auto context = gpu::decode_context(*result.context, engine.table().stat_floats());
    if (!context) return fail(context.error().message);
    contexts.push_back(*std::move(context));
    line.loss_bits.push_back(result.loss_bits);
  }
  kill_point("update.before");
  // A checkpoint may still be reading the replica; it gets its copies before the update changes
  // them.
  thaw();
  const Status status = engine.apply_update(reduced, std::move(contexts));
  kill_point("update.after");
  if (!status.ok()) end_if_device_lost();
  if (!status.ok()) return fail(status.error().message);
  provide_for_peers();
  line.version = engine.version();
  params_ = line.params = engine.params_digest();
  if (effect.last) {
    fetch_replica();
    line.state = engine.state_digest();
  }
  report(worker::UpdateApplied{std::move(line)});
  self_->send(
      control_,
      DeviceStats{engine.version(), slice_seconds_, clock_.seconds(StepClock::kSwitch),
                  clock_.seconds(StepClock::kWait), tree_ ? tree_->peak_live_buffers() : 0});
}

// One worker computes all samples in their order, so the sums of the metrics never depend on the
// placement.
void DeviceState::perform_effect(const worker::RunEvaluation& effect) {
  const std::shared_ptr<const store::SampleSource>& samples = parts_->data->samples;
  const std::uint64_t batch_size = parts_->options.spec.batch_size;
  const auto sink = store::MetricSink::create(parts_->options.spec, samples);
  std::vector<float> words(batch_size * static_cast<std::size_t>(samples->layout().words()));
  const std::string where = "evaluation of step " + std::to_string(effect.version) + ": ";
  for (std::uint64_t begin = 0; begin < samples->eval_count(); begin += batch_size) {
    if (abandoned(effect.generation)) return;
    const std::uint64_t count = std::min(batch_size, samples->eval_count() - begin);
    kill_point("evaluate");
    const Status filled = samples->fill_eval(begin, count, batch_size, words);
    if (!filled.ok()) return fail_for_data(where + filled.error().message);
    const auto batch = parts_->engine->evaluate({words.data()}, count);
    if (!batch) end_if_device_lost();
    if (const auto wrong = batch ? std::nullopt : parts_->engine->wrong_sample({words.data()}))
      return fail_for_data(where +
                           store::evaluation_sample_name(parts_->options.spec.data,
                                                         begin + std::min(*wrong, count - 1)) +
                           ": " + batch.error().message);
    if (!batch) return fail(where + batch.error().message);
    sink->add(begin, count, batch->outputs, batch->losses);
  }
  report(worker::EvaluationDone{
      effect.generation, effect.version,
      std::make_shared<const std::vector<std::byte>>(sink->totals().encode())});
}

}  // namespace es::actors
