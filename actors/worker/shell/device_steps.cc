// The local steps of the device: time slices of its ESTs, and audits.
#include <caf/all.hpp>

#include <numeric>
#include <utility>

#include "actors/base/log/log.h"
#include "actors/worker/est/shell/est_actor.h"
#include "actors/worker/shell/device_actor.h"
#include "gpu/cuda/device_reduction.h"
#include "proto/base/kill_point.h"

namespace es::actors {
namespace {

// The slot of a worker with one EST.
constexpr std::uint32_t kOnlySlot = 0;

}  // namespace

void DeviceState::set_ranks(RankRange ranks) {
  if (tree_ && ranks == ranks_) return;
  // All ESTs are dismissed, also those whose ranks stay. A mini-batch that was prefetched for a
  // later rank could otherwise hold the slot that the first rank of the new range needs.
  for (const auto& [rank, est] : ests_)
    self_->send(est, Msg<wire::Dismiss>::build({}, [](wire::Dismiss::Builder) {}));
  ranks_ = ranks;
  for (VirtualRank rank = ranks.begin; rank < ranks.end; ++rank)
    if (!ests_.contains(rank))
      ests_[rank] = self_->spawn(est_actor, rank, parts_->options.last_version,
                                 caf::actor_cast<caf::actor>(self_), data_workers_);
  const gpu::Engine& engine = *parts_->engine;
  tree_ = std::make_unique<gpu::GradientTree>(
      ranks, parts_->options.spec.max_p, engine.buckets().size(),
      [this](const gpu::PartReady& ready) { part_ready(ready); }, engine.gradient_order());
}

// Takes all gradient slots before the step, because an error cannot be returned from inside a
// backward pass.
Status DeviceState::take_gradient_slots() {
  gpu::Engine& engine = *parts_->engine;
  leaving_ = gradients_may_leave();
  leaving_gradients_.begin_step();
  if (leaving_) {
    const Result<float*> slot = gradients_->reserved_slot(kOnlySlot);
    if (!slot) return slot.error();
    // What an evaluation, or the end of a step, has left.
    gradients_->release(kOnlySlot, 0, engine.table().trained_floats());
    return {};
  }
  if (engine.merges_on_device()) {
    if (ranks_.size() != parts_->options.spec.max_p)
      gradients_->take_device_slots(tree_->part_slots(), *engine.reduction()->pool(), host_copies_);
    return gradients_->take_slots(tree_->part_slots());
  }
  std::vector<std::uint32_t> slots(
      gpu::max_live_buffers(ranks_, parts_->options.spec.max_p, engine.gradient_order()));
  std::iota(slots.begin(), slots.end(), 0U);
  return gradients_->take_slots(slots);
}

void DeviceState::perform_effect(const worker::StartLocalSteps& effect) {
  if (abandoned(effect.generation)) return;
  // The step changes the version, so the copy for peers is outdated. All members had the version
  // before Go.
  exported_.reset();
  begin_generation(effect.generation);
  // What was exported before the first step was for members that have it now.
  if (!std::exchange(stepping_, true)) exports_.clear();
  kept_sums_.clear();
  set_ranks(effect.ranks);
  if (const Status taken = take_gradient_slots(); !taken.ok())
    return fail_for_gradients(taken.error());
  // The previous step is committed or given up. It was committed only with all sums, and a sum
  // exists only after its owner has read the parts, so no peer reads these slots any more.
  tree_->release_all();
  step_ = effect.step;
  audited_ = effect.audited;
  results_ = {};
  clock_.restart();
  warn_if_slower();
  if (trace_wanted_) begin_trace(effect.step);
  if (traced_) lane_->wait_begins(step_, tracing::trace_now());
  run_ready_slices(slices_.begin(generation_, step_, ranks_));
}

void DeviceState::warn_if_slower() {
  const std::string why = warned_slower_ ? "" : parts_->engine->slower_because();
  if (why.empty()) return;
  warned_slower_ = true;
  log::warning(why);
}

void DeviceState::on_slice(const wire::RunLocalStep::Reader& slice) {
  run_ready_slices(slices_.add({.generation = {slice.getGeneration()},
                                .step = slice.getStep(),
                                .rank = slice.getRank(),
                                .slot = slice.getSlot(),
                                .error = slice.getError().cStr()},
                               abandoned_below()));
}

void DeviceState::resume_slices() {
  run_ready_slices(slices_.resume(abandoned_below()));
}

// Does what the slice queue has decided: it runs one slice after the other, as long as the queue
// has a next one.
void DeviceState::run_ready_slices(worker::SliceDecision decision) {
  perform(decision.effects);
  while (decision.run) {
    decision = run_one(*decision.run);
    perform(decision.effects);
  }
}

void DeviceState::perform(const std::vector<worker::SliceEffect>& effects) {
  for (const worker::SliceEffect& effect : effects)
    std::visit([this](const auto& e) { perform_slice_effect(e); }, effect);
}

void DeviceState::perform_slice_effect(const worker::GrantSlices& effect) {
  for (VirtualRank rank = effect.ranks.begin; rank < effect.ranks.end; ++rank)
    self_->send(ests_.at(rank), Msg<wire::GrantSlice>::build({}, [&](wire::GrantSlice::Builder b) {
                  b.setGeneration(effect.generation.value);
                  b.setStep(effect.step);
                }));
}

void DeviceState::perform_slice_effect(const worker::EndSlice& effect) {
  self_->send(ests_.at(effect.rank),
              Msg<wire::SliceDone>::build({}, [&](wire::SliceDone::Builder b) {
                b.setStep(effect.step);
                b.setRank(effect.rank);
                b.setSlot(effect.slot);
              }));
}

void DeviceState::perform_slice_effect(const worker::AnnounceSlice& effect) {
  self_->send(data_workers_, Msg<wire::NextSlice>::build({}, [&](wire::NextSlice::Builder b) {
                b.setStep(effect.step);
                b.setRank(effect.rank);
              }));
}

void DeviceState::perform_slice_effect(const worker::YieldToMailbox&) {
  self_->send(self_, ResumeSlices{});
}

void DeviceState::perform_slice_effect(const worker::StayIdle& effect) {
  clock_.enter(effect.step_is_over ? worker::StepClock::kNothing : worker::StepClock::kWait);
  if (!traced_) return;
  if (effect.step_is_over)
    lane_->forget_wait();
  else
    lane_->wait_begins(step_, tracing::trace_now());
}

worker::SliceDecision DeviceState::run_one(const worker::RunSlice& run) {
  const Status status = run_slice(run);
  kill_point("slice.end");
  if (status.ok())
    return slices_.finished(clock_.spent(worker::StepClock::kCompute), abandoned_below());
  // The job cannot continue. The engine keeps its version, so the state can be kept.
  tree_.reset();
  results_.without_loss.clear();
  fail(status.error());
  return slices_.failed();
}

std::string DeviceState::where(VirtualRank rank) const {
  return "EST " + std::to_string(rank) + ", step " + std::to_string(step_) + ": ";
}

gpu::Batch DeviceState::batch_of(const worker::Slice& slice) const {
  const store::EpochSampler& sampler = parts_->data->sampler;
  return {.words = parts_->data->pool.words(slice.slot).data(),
          .serial = slice.arrival,
          .program = sampler.bucket(sampler.cursor(slice.step), slice.rank)};
}

Status DeviceState::run_slice(const worker::RunSlice& run) {
  const VirtualRank rank = run.slice.rank;
  if (!run.slice.error.empty()) return usage_error(where(rank) + run.slice.error);
  clock_.enter(worker::StepClock::kSwitch);
  const gpu::Batch batch = batch_of(run.slice);
  // Begun before the local step, so that the copy of the next mini-batch to the device overlaps
  // with the computation.
  if (run.following) parts_->engine->prefetch(run.following->rank, batch_of(*run.following));
  gpu::EstContext& context = results_.next_contexts[rank];
  // All slots exist already (take_gradient_slots).
  gpu::GradientTarget gradient(tree_->begin_rank(rank), [this](std::uint32_t slot) {
    return *gradients_->reserved_slot(slot);
  });
  gradient.device = [this](std::uint32_t slot) { return gradients_->device_slot(slot); };
  gradient.in_host = gradients_->in_host(gradient.path.slots.back());
  worker::LocalStepDigest digest;
  const bool audited = audited_ == rank;
  const Instant computed_before = clock_.spent(worker::StepClock::kCompute);
  clock_.enter(worker::StepClock::kCompute);
  const Instant begin = traced_ ? trace_slice_begins() : Instant{};
  const Result<float> loss = local_step(rank, batch, gradient, context, audited ? &digest : nullptr,
                                        [this](std::uint32_t bucket) { bucket_ready(bucket); });
  if (traced_) trace_slice_ends(rank, begin);
  if (!loss) end_if_device_lost();
  if (!loss && loss.error().kind == ErrorKind::kUsage)
    return wrong_batch(rank, batch, loss.error());
  if (!loss) return loss.error();
  if (audited) report(worker::AuditDone{generation_, step_, rank, digest.finish(context)});
  // The loss is stored first, because the parts of bucket 0 that are reported next contain it.
  results_.losses[rank] = *loss;
  for (const gpu::PartReady& ready : results_.without_loss) report_part(ready);
  results_.without_loss.clear();
  clock_.enter(worker::StepClock::kSwitch);
  results_.slice_seconds.push_back(
      in_seconds(clock_.spent(worker::StepClock::kCompute) - computed_before));
  return {};
}

// Returns an engine error about a mini-batch, with the step and the name of the sample.
Error DeviceState::wrong_batch(VirtualRank rank, const gpu::Batch& batch,
                               const Error& error) const {
  const store::EpochSampler& sampler = parts_->data->sampler;
  const auto place = static_cast<std::uint32_t>(*parts_->engine->wrong_sample(batch));
  return usage_error(
      where(rank) +
      store::training_sample_name(parts_->options.spec.data,
                                  sampler.sample(sampler.cursor(step_), rank, place)) +
      ": " + error.message);
}

// Computes a local step; every gradient of this device is computed here. If `digest` is not null,
// it receives the digest of the gradient.
Result<float> DeviceState::local_step(VirtualRank rank, const gpu::Batch& batch,
                                      gpu::GradientTarget gradient, gpu::EstContext& next,
                                      worker::LocalStepDigest* digest,
                                      const gpu::Engine::OnBucketReady& on_bucket_ready) {
  gpu::Engine& engine = *parts_->engine;
  const Version step = engine.version();
  // The cursor of version step + 1 is the position after this step; it becomes part of the next
  // context.
  const store::DataCursor cursor = parts_->data->sampler.cursor(step + 1);
  if (parts_->options.lost_at == step) engine.lose_device(failure("ES_LOSE_DEVICE requests it"));
  if (digest != nullptr || parts_->options.fault)
    gradient.inspect = [&](std::uint32_t number, float* data) {
      const gpu::Bucket& bucket = engine.buckets()[number];
      if (number == 0 && parts_->options.fault)
        parts_->options.fault->strike(step, rank,
                                      {data, static_cast<std::size_t>(bucket.floats())});
      if (digest != nullptr) digest->add_bucket(data, bucket);
    };
  return engine.local_step(rank, batch, {cursor.epoch, cursor.step}, gradient, next,
                           on_bucket_ready);
}

// Computes the local step of a rank of another member, or of an own rank once more. Audits are
// rare, so the memory is allocated here and freed afterwards, and the mini-batch does not use a
// slot of the ESTs.
void DeviceState::perform_effect(const worker::RunAudit& effect) {
  if (abandoned(effect.generation)) return;
  const DataSource& data = *parts_->data;
  const auto batch_words =
      parts_->options.spec.batch_size * static_cast<std::size_t>(data.samples->words_max());
  std::vector<float> words(batch_words);
  const store::DataCursor at = data.sampler.cursor(effect.step);
  const Status filled = store::fill_batch(*data.samples, data.sampler, at, effect.rank, words);
  const gpu::Batch batch{.words = words.data(), .program = data.sampler.bucket(at, effect.rank)};
  const std::string where = "audit of EST " + std::to_string(effect.rank) + ", step " +
                            std::to_string(effect.step) + ": ";
  if (!filled.ok()) return fail_for_data(where + filled.error().message);
  const Instant begin = span_begin();
  gpu::AlignedBuffer gradient(parts_->engine->table().trained_floats());
  gpu::EstContext next;
  worker::LocalStepDigest digest;
  const Result<float> loss =
      local_step(effect.rank, batch, gradient.data(), next, &digest, [](std::uint32_t) {});
  if (!loss) end_if_device_lost();
  // A faulty device may get a loss that is not finite. This is a result to be compared, not a
  // failure of the job: the digest of the error text takes its place, so that the head can find the
  // device.
  add_to_trace(tracing::SpanKind::kAudit, effect.step, effect.rank, begin);
  const Digest opinion = loss ? digest.finish(next) : digest_of(loss.error().message);
  report(worker::AuditDone{effect.generation, effect.step, effect.rank, opinion});
}

// Whether the gradient of a worker with one EST leaves early: in a job with sharded state, in which
// memory is short, and on a CPU. A worker that is alone sends nothing.
bool DeviceState::gradients_may_leave() const {
  const JobSpec& spec = parts_->options.spec;
  return spec.shard.state == "on" && ranks_.size() == 1 && spec.max_p > 1 &&
         !parts_->engine->merges_on_device();
}

void DeviceState::bucket_ready(std::uint32_t bucket) {
  // No other worker is told anything of an abandoned step.
  const bool unwanted = abandoned(generation_);
  tree_->bucket_ready(bucket);
  if (!leaving_) return;
  const gpu::Bucket& floats = parts_->engine->buckets()[bucket];
  if (unwanted) return gradients_->release(kOnlySlot, floats.begin, floats.floats());
  leaving_gradients_.add(bucket, floats);
  wait_for_room();
}

// The local step goes on when others have read enough, or when its generation was abandoned. What
// others need for that is done here.
void DeviceState::wait_for_room() {
  clock_.enter(worker::StepClock::kNothing);
  for (do_step_work(); !leaving_gradients_.have_room(); do_step_work()) {
    if (abandoned(generation_)) break;
    kill_point("slice.held_up");
    report(worker::StepsHeldUp{generation_, step_});
    parts_->step_work->wait();
  }
  clock_.enter(worker::StepClock::kCompute);
}

void DeviceState::perform_effect(const worker::PartsRead& effect) {
  const bool is_here = leaving_ && gradients_ && !abandoned(effect.generation) &&
                       effect.generation == generation_ && effect.step == step_;
  if (!is_here) return;
  const gpu::Bucket& floats = parts_->engine->buckets()[effect.bucket];
  gradients_->release(kOnlySlot, floats.begin, floats.floats());
  leaving_gradients_.read(effect.bucket);
  kill_point("gradient.left");
}

// Sums are reported while the local step runs, so that their reduction can begin. Those of bucket 0
// wait for the loss (step_results.h).
void DeviceState::part_ready(const gpu::PartReady& ready) {
  if (ready.bucket == 0)
    results_.without_loss.push_back(ready);
  else
    report_part(ready);
}

void DeviceState::report_part(const gpu::PartReady& ready) {
  const gpu::Bucket& bucket = parts_->engine->buckets()[ready.bucket];
  report(
      worker::PartSummed{{.stamp = {generation_, {}},
                          .step = step_,
                          .bucket = ready.bucket,
                          .ranks = ready.ranks,
                          .data = gradients_->slot_bulk(ready.slot, bucket.begin, bucket.floats()),
                          .results = ready.bucket == 0 ? results_.of(ready.ranks)
                                                       : std::vector<protocol::RankResult>(),
                          .drain = false}});
}

}  // namespace es::actors
