// What follows the local steps on the device: reduction of buckets, the update, evaluation.
#include <caf/all.hpp>

#include "actors/worker/device_actor.h"
#include "actors/worker/reduce_parts.h"
#include "proto/base/kill_point.h"

namespace es::actors {

using worker::BucketReduced;
using worker::DataUnreadable;

Result<const float*> DeviceState::read_floats(const protocol::Bulk& bulk, std::int64_t floats) {
  if (bulk.bytes != static_cast<std::uint64_t>(floats) * sizeof(float))
    return failure("bulk data of " + std::to_string(bulk.bytes) + " bytes, expected " +
                   std::to_string(floats * sizeof(float)));
  if (bulk.inline_bytes) return reinterpret_cast<const float*>(bulk.inline_bytes->data());
  if (gradients_)
    if (const float* own = gradients_->own(bulk)) return own;
  auto bytes = peers_.read(bulk.segment, bulk.offset, bulk.bytes);
  if (!bytes) return bytes.error();
  return reinterpret_cast<const float*>(bytes->data());
}

void DeviceState::perform_effect(const worker::ReduceBucket& effect) {
  if (abandoned(effect.generation)) return;
  // One part is the whole tree: the only member's own sum, which nobody else reads.
  if (effect.parts.size() == 1)
    return report(
        BucketReduced{effect.generation, effect.step, effect.bucket, effect.parts.front().data});
  const std::int64_t floats = parts_->engine->buckets()[effect.bucket].floats();
  std::vector<worker::PartData> parts;
  for (const worker::Part& part : effect.parts) {
    const auto data = read_floats(part.data, floats);
    if (!data) return report(DataUnreadable{effect.generation, part.from});
    parts.push_back({part.ranks, *data});
  }
  const Result<float*> sum = gradients_->sum(effect.bucket, floats);
  if (!sum) return fail(sum.error().message);
  kill_point("reduce.before");
  worker::reduce_parts(*parts_->engine, parts_->options.spec.max_p, parts, floats,
                       reduce_workspace_.data(), *sum);
  kill_point("reduce.after");
  report(BucketReduced{effect.generation, effect.step, effect.bucket,
                       gradients_->sum_bulk(effect.bucket)});
}

void DeviceState::perform_effect(const worker::ApplyUpdate& effect) {
  gpu::Engine& engine = *parts_->engine;
  std::vector<const float*> reduced;
  for (const protocol::Reduced& bucket : effect.buckets) {
    const auto data = read_floats(bucket.data, engine.buckets()[bucket.bucket].floats());
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
  thaw();
  const Status status = engine.apply_update(reduced, std::move(contexts));
  kill_point("update.after");
  if (!status.ok()) end_if_device_lost();
  if (!status.ok()) return fail(status.error().message);
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

// All samples in their order, by one worker, so nothing is ever added up in another order.
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
