// The local steps of the device: time slices of its ESTs, and audits.
#include <caf/all.hpp>

#include <bit>
#include <numeric>

#include "actors/est/shell/est_actor.h"
#include "actors/log/log.h"
#include "actors/worker/shell/device_actor.h"
#include "proto/base/kill_point.h"

namespace es::actors {
namespace {

constexpr double kTellEvery = 5e-3;  // seconds of compute time

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
      [this](const gpu::NodeReady& node) { node_ready(node); }, engine.gradient_order());
}

// Takes all gradient slots before the step, because an error cannot be returned from inside a
// backward pass.
Status DeviceState::take_gradient_slots() {
  gpu::Engine& engine = *parts_->engine;
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

float* DeviceState::gradient_slot(std::uint32_t slot) {
  return *gradients_->slot(slot);
}

void DeviceState::perform_effect(const worker::StartLocalSteps& effect) {
  if (abandoned(effect.generation)) return;
  exported_.reset();
  if (!done_.empty()) end_done_slices();
  begin_generation(effect.generation);
  set_ranks(effect.ranks);
  if (const Status taken = take_gradient_slots(); !taken.ok())
    return fail_keeping_state("gradients: " + taken.error().message, "where there is more memory");
  tree_->release_all();
  step_ = effect.step;
  audited_ = effect.audited;
  next_rank_ = effect.ranks.begin;
  next_contexts_.clear();
  losses_.clear();
  first_bucket_.clear();
  slice_seconds_.clear();
  clock_.restart();
  told_at_ = 0;
  say_if_slower();
  announce_next_slice();
  for (VirtualRank rank = ranks_.begin; rank < ranks_.end; ++rank)
    self_->send(ests_[rank], Msg<wire::GrantSlice>::build({}, [&](wire::GrantSlice::Builder b) {
                  b.setGeneration(generation_.value);
                  b.setStep(step_);
                }));
}

void DeviceState::say_if_slower() {
  const std::string why = said_slower_ ? "" : parts_->engine->slower_because();
  if (why.empty()) return;
  said_slower_ = true;
  log::warning(why);
}

void DeviceState::announce_next_slice() {
  const bool step_is_over = next_rank_ == ranks_.end;
  self_->send(data_workers_, Msg<wire::NextSlice>::build({}, [&](wire::NextSlice::Builder b) {
                b.setStep(step_is_over ? step_ + 1 : step_);
                b.setRank(step_is_over ? ranks_.begin : next_rank_);
              }));
}

// A slice of an older generation or step, or of a rank that has already run, is returned and not
// run.
void DeviceState::on_slice(const wire::RunLocalStep::Reader& slice, const caf::actor& est) {
  const bool current = slice.getGeneration() == generation_.value && slice.getStep() == step_ &&
                       !abandoned(generation_) && tree_;
  if (!current || slice.getRank() < next_rank_)
    return end_slice({.est = est, .slot = slice.getSlot()}, slice.getStep(), slice.getRank());
  waiting_[slice.getRank()] = {est, slice.getSlot(), slice.getError().cStr(), ++arrivals_};
  if (waiting_.contains(next_rank_)) see_what_has_come();
}

// Runs the slices by a message to itself, so that slices already in the mailbox are seen first.
// run_slice can then prefetch the mini-batch of the following rank.
void DeviceState::see_what_has_come() {
  if (run_slices_sent_) return;
  run_slices_sent_ = true;
  self_->send(self_, RunSlices{});
}

void DeviceState::run_next_slices() {
  run_slices_sent_ = false;
  if (!waiting_.contains(next_rank_)) return;
  clock_.enter(StepClock::kSwitch);
  work_off_slices();
  if (run_slices_sent_) return;  // the remaining slices follow with the next RunSlices
  clock_.enter(next_rank_ == ranks_.end ? StepClock::kNothing : StepClock::kWait);
  end_done_slices();
}

void DeviceState::work_off_slices() {
  for (auto at = waiting_.find(next_rank_); at != waiting_.end(); at = waiting_.find(next_rank_)) {
    const Slice slice = at->second;
    waiting_.erase(at);
    const Status status = slice.error.empty() ? run_slice(next_rank_, slice)
                                              : usage_error(where(next_rank_) + slice.error);
    done_.emplace_back(next_rank_, slice);
    kill_point("slice.end");
    if (!status.ok()) {
      give_up_step();
      return status.error().kind == ErrorKind::kUsage ? fail_for_data(status.error().message)
                                                      : fail(status.error().message);
    }
    ++next_rank_;
    if (clock_.seconds(StepClock::kCompute) >= told_at_ + kTellEvery) end_done_slices();
    // An AbandonGenerations waits in the mailbox; it must be handled before the next slice.
    if (abandoned(generation_)) return;
    // The next slice is there, but the one after it is not. It may be in the mailbox, so look there
    // first: its mini-batch can then be copied to the device while the next slice runs.
    if (waiting_.contains(next_rank_) && next_rank_ + 1 != ranks_.end &&
        !waiting_.contains(next_rank_ + 1))
      return see_what_has_come();
  }
}

std::string DeviceState::where(VirtualRank rank) const {
  return "EST " + std::to_string(rank) + ", step " + std::to_string(step_) + ": ";
}

// Sends SliceDone for finished slices and announces the next one. These messages wake other
// threads, which takes as long as a local step of a small model. Therefore short slices are
// reported together, once per kTellEvery of compute time.
void DeviceState::end_done_slices() {
  for (const auto& [rank, slice] : done_) end_slice(slice, step_, rank);
  done_.clear();
  announce_next_slice();
  told_at_ = clock_.seconds(StepClock::kCompute);
}

// Abandons the step, because the job cannot continue. The engine keeps its version. Waiting slices
// are returned, and so are slices that arrive later, since tree_ is null.
void DeviceState::give_up_step() {
  tree_.reset();
  for (const auto& [rank, slice] : waiting_) end_slice(slice, step_, rank);
  waiting_.clear();
  first_bucket_.clear();
}

gpu::Batch DeviceState::batch_of(const Slice& slice) const {
  return {parts_->data->pool.words(slice.slot).data(), slice.serial};
}

Status DeviceState::run_slice(VirtualRank rank, const Slice& slice) {
  const gpu::Batch batch = batch_of(slice);
  const auto following = waiting_.find(rank + 1);
  if (following != waiting_.end() && following->second.error.empty())
    parts_->engine->prefetch(rank + 1, batch_of(following->second));
  gpu::EstContext& context = next_contexts_[rank];
  gpu::GradientTarget gradient(tree_->begin_rank(rank),
                               [this](std::uint32_t slot) { return gradient_slot(slot); });
  gradient.device = [this](std::uint32_t slot) { return gradients_->device_slot(slot); };
  gradient.in_host = gradients_->in_host(gradient.path.slots.back());
  worker::LocalStepDigest digest;
  const bool audited = audited_ == rank;
  const double computed_before = clock_.seconds(StepClock::kCompute);
  clock_.enter(StepClock::kCompute);
  const Result<float> loss =
      local_step(rank, batch, gradient, context, audited ? &digest : nullptr,
                 [this](std::uint32_t bucket) { tree_->bucket_ready(bucket); });
  if (!loss) end_if_device_lost();
  if (!loss && loss.error().kind == ErrorKind::kUsage)
    return wrong_batch(rank, batch, loss.error());
  if (!loss) return loss.error();
  if (audited) report(worker::AuditDone{generation_, step_, rank, digest.finish(context)});
  losses_[rank] = *loss;
  // Sums are reported while the local step runs, those of the first bucket at its end (node_ready).
  for (const gpu::NodeReady& node : first_bucket_) node_summed(node);
  first_bucket_.clear();
  clock_.enter(StepClock::kSwitch);
  slice_seconds_.push_back(clock_.seconds(StepClock::kCompute) - computed_before);
  return {};
}

void DeviceState::end_if_device_lost() {
  const Status device = parts_->engine->device_status();
  if (!device.ok()) parts_->on_device_lost(device.error().message);
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
  if (parts_->options.lost_at == step) engine.lose_device(failure("ES_LOSE_DEVICE says so"));
  if (digest != nullptr || parts_->options.fault)
    gradient.inspect = [&](std::uint32_t number, float* data) {
      if (number == 0 && parts_->options.fault) parts_->options.fault->strike(step, rank, data);
      if (digest != nullptr) digest->add_bucket(data, engine.buckets()[number]);
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
      parts_->options.spec.batch_size * static_cast<std::size_t>(data.samples->layout().words());
  std::vector<float> words(batch_words);
  const Status filled = store::fill_batch(*data.samples, data.sampler,
                                          data.sampler.cursor(effect.step), effect.rank, words);
  const std::string where = "audit of EST " + std::to_string(effect.rank) + ", step " +
                            std::to_string(effect.step) + ": ";
  if (!filled.ok()) return fail_for_data(where + filled.error().message);
  gpu::AlignedBuffer gradient(parts_->engine->table().total_floats());
  gpu::EstContext next;
  worker::LocalStepDigest digest;
  const Result<float> loss =
      local_step(effect.rank, {words.data()}, gradient.data(), next, &digest, [](std::uint32_t) {});
  if (!loss) end_if_device_lost();
  // A faulty device may get a loss that is not finite. This is a result to be compared, not a
  // failure of the job: the digest of the error text takes its place, so that the head can find the
  // device.
  const Digest opinion = loss ? digest.finish(next) : digest_of(loss.error().message);
  report(worker::AuditDone{effect.generation, effect.step, effect.rank, opinion});
}

void DeviceState::node_ready(const gpu::NodeReady& node) {
  // Bucket 0 carries the loss of the slice, which is known only when the slice ends.
  if (node.bucket == 0)
    first_bucket_.push_back(node);
  else
    node_summed(node);
}

void DeviceState::node_summed(const gpu::NodeReady& node) {
  const gpu::Bucket& bucket = parts_->engine->buckets()[node.bucket];
  report(worker::PartSummed{
      generation_, step_, node.bucket, node.ranks,
      gradients_->slot_bulk(node.slot, bucket.begin, bucket.floats()),
      node.bucket == 0 ? results_of(node.ranks) : std::vector<protocol::RankResult>()});
}

std::vector<protocol::RankResult> DeviceState::results_of(RankRange ranks) const {
  std::vector<protocol::RankResult> results;
  for (VirtualRank rank = ranks.begin; rank < ranks.end; ++rank)
    results.push_back(
        {rank, std::bit_cast<std::uint32_t>(losses_.at(rank)),
         std::make_shared<const std::vector<std::byte>>(gpu::encode(next_contexts_.at(rank)))});
  return results;
}

}  // namespace es::actors
