#include "actors/worker/device_actor.h"

#include <caf/all.hpp>

#include <bit>

#include "actors/common/initial_weights.h"
#include "actors/est/est_actor.h"
#include "actors/worker/periodic_checkpoint.h"
#include "actors/worker/reduce_parts.h"
#include "gpu/est/reduce_tree.h"
#include "proto/base/kill_point.h"

namespace es::actors {

using worker::BucketReduced;
using worker::DataUnreadable;
using worker::EngineEvent;

namespace {

constexpr double kTellEvery = 2e-3;  // seconds of computing

}  // namespace

void DeviceState::init(caf::stateful_actor<DeviceState>* self, std::shared_ptr<DeviceParts> parts,
                       caf::actor control, caf::actor data_workers) {
  self_ = self;
  parts_ = std::move(parts);
  control_ = std::move(control);
  data_workers_ = std::move(data_workers);
  reduce_workspace_ =
      gpu::AlignedBuffer(gpu::reduce_tree_workspace_floats(parts_->options.spec.max_p));
}

// Missing memory ends the job by saying what it was for, or a checkpoint that was asked for, and
// not the process.
void DeviceState::perform(const worker::Effect& effect) {
  try {
    std::visit([this](const auto& e) { perform_effect(e); }, effect);
  } catch (const std::bad_alloc& missing) {
    const bool named = dynamic_cast<const gpu::NoMemory*>(&missing) != nullptr;
    const std::string error = named ? missing.what() : "not enough memory for this worker";
    const auto* write = std::get_if<worker::WriteVersion>(&effect);
    if (write == nullptr) return fail(error);
    report(worker::CheckpointFinished{write->request, write->directory,
                                      parts_->engine->replica().version, {}, error});
  }
}

template <class Other>
void DeviceState::perform_effect(const Other&) {
  ES_CHECK_MSG(false, "an effect of the control half reached the device");
}

void DeviceState::report(EngineEvent event) { self_->send(control_, DeviceEvent{std::move(event)}); }

bool DeviceState::abandoned(Generation generation) const {
  return generation.value < parts_->abandoned_below->load();
}

void DeviceState::perform_effect(const worker::AbandonGenerations& effect) {
  if (generation_ >= effect.before) return;
  tree_.reset();
  gradients_.reset();
  exported_.reset();
  peers_.clear();
  for (const auto& [rank, slice] : waiting_) end_slice(slice, step_, rank);
  waiting_.clear();
}

void DeviceState::end_slice(const Slice& slice, Version step, VirtualRank rank) {
  self_->send(slice.est, Msg<wire::SliceDone>::build({}, [&](wire::SliceDone::Builder b) {
                b.setStep(step);
                b.setRank(rank);
                b.setSlot(slice.slot);
              }));
}

void DeviceState::begin_generation(Generation generation) {
  if (gradients_ && generation_ == generation) return;
  generation_ = generation;
  gradients_ = std::make_unique<worker::GradientStore>(
      parts_->options.job, parts_->options.incarnation, generation,
      parts_->engine->table().total_floats());
  tree_.reset();
}

// --- versions

void DeviceState::perform_effect(const worker::LoadVersion& effect) {
  kill_point("load.begin");
  gpu::Engine& engine = *parts_->engine;
  if (std::holds_alternative<protocol::FromSeed>(effect.from)) {
    Status made = engine.init_replica();
    if (made.ok()) made = load_initial_weights(engine, parts_->options.spec.model);
    if (!made.ok()) return fail(made.error().message);
  } else if (const auto* disk = std::get_if<protocol::FromCheckpoint>(&effect.from)) {
    const Status status = worker::load_checkpoint(engine, parts_->options.spec, disk->path);
    if (!status.ok() && status.error().kind == ErrorKind::kRefused)
      return fail(status.error().message);  // whole, but no checkpoint of this job's would do
    if (!status.ok())
      return report(
          worker::CheckpointDamaged{effect.generation, disk->path, status.error().message});
  } else {
    const auto& state = std::get<protocol::State>(effect.from);
    if (!worker::import_version(engine, state, peers_).ok())
      return report(DataUnreadable{effect.generation, state.stamp.sender});
  }
  if (engine.replica().version != effect.version)
    return fail("loaded version " + std::to_string(engine.replica().version) + ", wanted " +
                std::to_string(effect.version));
  kill_point("load.end");
  report(worker::VersionLoaded{effect.version});
}

void DeviceState::perform_effect(const worker::ExportVersion& effect) {
  if (abandoned(effect.generation)) return;
  if (!exported_ || generation_ != effect.generation) {
    begin_generation(effect.generation);
    kill_point("export.begin");
    auto segment =
        Segment::create(segment_label(parts_->options.job, parts_->options.incarnation,
                                     effect.generation, "version"),
                        worker::export_bytes(*parts_->engine));
    if (!segment) return fail(segment.error().message);
    exported_ = *std::move(segment);
  }
  report(worker::VersionExported{effect.generation, effect.to,
                                 worker::export_version(*parts_->engine, *exported_)});
}

void DeviceState::perform_effect(const worker::WriteVersion& effect) {
  kill_point("checkpoint.copy");
  worker::CheckpointFinished done{
      effect.request, effect.directory, parts_->engine->replica().version, {}, {}};
  std::shared_ptr<worker::Snapshot> copy;
  try {
    copy = std::make_shared<worker::Snapshot>(snapshot());
  } catch (const gpu::NoMemory& error) {
    done.error = effect.directory + ": no copy to write: " + error.what();
    return report(done);
  }
  // The step waits only for the copy: a thread of its own digests it and writes it out.
  self_->spawn<caf::detached>(
      [copy, done, effect, parts = parts_, control = control_](caf::event_based_actor* me) mutable {
        worker::complete(*copy, parts->engine->table());
        done.digests = copy->digests;
        const auto path = worker::write_version(*copy, effect);
        if (path) {
          done.path = path->string();
        } else {
          done.error = path.error().message;
          done.error_kind = path.error().kind;
        }
        me->send(control, DeviceEvent{done});
      });
}

worker::Snapshot DeviceState::snapshot() const {
  const gpu::Engine& engine = *parts_->engine;
  const JobSpec& spec = parts_->options.spec;
  return {spec.name, parts_->options.spec_toml, {}, kernel_record(engine, spec.level),
          engine.replica()};
}

void DeviceState::fail_for_data(const std::string& error) {
  fail_keeping_state(error, "when the data are mended");
}

// What is wrong can be mended, and then the job can go on from here; so its last state is kept.
// Another worker of this host may have kept it already: it is the same.
void DeviceState::fail_keeping_state(const std::string& error, const char* when) {
  const Version version = parts_->engine->replica().version;
  if (version == 0) return fail(error);
  const std::filesystem::path& parent = parts_->options.rescue_dir;
  const std::filesystem::path directory =
      parent / (parts_->options.job + "-step-" + std::to_string(version));
  std::error_code ignored;  // the writer says what is wrong with the directory
  std::filesystem::create_directories(parent, ignored);
  worker::Snapshot last = snapshot();
  worker::complete(last, parts_->engine->table());
  const auto kept = worker::keep_snapshot(last, directory);
  if (kept)
    return fail(error + "; the state after step " + std::to_string(version) + " is kept in " +
                kept->string() + ", to go on from " + when);
  fail(error + "; the state after step " + std::to_string(version) +
       " could not be kept: " + kept.error().message);
}

// --- local steps

void DeviceState::set_ranks(RankRange ranks) {
  if (tree_ && ranks == ranks_) return;
  // All of them: a mini-batch that was fetched ahead for later ranks could hold the slot that the
  // first rank of the new range needs.
  for (const auto& [rank, est] : ests_)
    self_->send(est, Msg<wire::Dismiss>::build({}, [](wire::Dismiss::Builder) {}));
  ranks_ = ranks;
  for (VirtualRank rank = ranks.begin; rank < ranks.end; ++rank)
    if (!ests_.contains(rank))
      ests_[rank] = self_->spawn(est_actor, rank, parts_->options.last_version,
                                 caf::actor_cast<caf::actor>(self_), data_workers_);
  const gpu::Engine& engine = *parts_->engine;
  tree_ = std::make_unique<gpu::GradientTree>(
      ranks, parts_->options.spec.max_p, engine.buckets(), engine.kernels(),
      [this](std::uint32_t slot) { return gradient_slot(slot); },
      [this](const gpu::NodeReady& node) { node_ready(node); }, engine.gradient_order());
}

// Missing memory cannot be answered from inside a backward pass, so all slots are taken before.
Status DeviceState::take_gradient_slots() {
  return gradients_->take_slots(gpu::max_live_buffers(ranks_, parts_->options.spec.max_p,
                                                      parts_->engine->gradient_order()));
}

float* DeviceState::gradient_slot(std::uint32_t slot) {
  return *gradients_->slot(slot);
}

void DeviceState::perform_effect(const worker::StartLocalSteps& effect) {
  if (abandoned(effect.generation)) return;
  exported_.reset();
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
  announce_next_slice();
  for (VirtualRank rank = ranks_.begin; rank < ranks_.end; ++rank)
    self_->send(ests_[rank], Msg<wire::GrantSlice>::build({}, [&](wire::GrantSlice::Builder b) {
                  b.setGeneration(generation_.value);
                  b.setStep(step_);
                }));
}

void DeviceState::announce_next_slice() {
  const bool step_is_over = next_rank_ == ranks_.end;
  self_->send(data_workers_, Msg<wire::NextSlice>::build({}, [&](wire::NextSlice::Builder b) {
                b.setStep(step_is_over ? step_ + 1 : step_);
                b.setRank(step_is_over ? ranks_.begin : next_rank_);
              }));
}

void DeviceState::on_slice(const wire::RunLocalStep::Reader& slice, const caf::actor& est) {
  const bool current = slice.getGeneration() == generation_.value && slice.getStep() == step_ &&
                       !abandoned(generation_) && tree_;
  if (!current || slice.getRank() < next_rank_)
    return end_slice({est, slice.getSlot(), {}}, slice.getStep(), slice.getRank());
  waiting_[slice.getRank()] = {est, slice.getSlot(), slice.getError().cStr()};
  run_next_slices();
}

void DeviceState::run_next_slices() {
  clock_.enter(StepClock::kSwitch);
  work_off_slices();
  clock_.enter(next_rank_ == ranks_.end ? StepClock::kNothing : StepClock::kWait);
  end_done_slices();
}

void DeviceState::work_off_slices() {
  for (auto at = waiting_.find(next_rank_); at != waiting_.end(); at = waiting_.find(next_rank_)) {
    const Slice slice = at->second;
    waiting_.erase(at);
    const std::string where =
        "EST " + std::to_string(next_rank_) + ", step " + std::to_string(step_) + ": ";
    const Status status =
        slice.error.empty() ? run_slice(next_rank_, slice.slot) : usage_error(where + slice.error);
    done_.emplace_back(next_rank_, slice);
    kill_point("slice.end");
    if (!status.ok()) {
      give_up_step();
      return status.error().kind == ErrorKind::kUsage ? fail_for_data(status.error().message)
                                                      : fail(status.error().message);
    }
    ++next_rank_;
    if (clock_.seconds(StepClock::kCompute) >= told_at_ + kTellEvery) end_done_slices();
    // An abandonment waits in the queue; let it through before the next slice.
    if (abandoned(generation_)) return;
  }
}

// Telling the others of a slice wakes them up, which takes as long as a small model's local step.
// So those of short slices are told together.
void DeviceState::end_done_slices() {
  for (const auto& [rank, slice] : done_) end_slice(slice, step_, rank);
  done_.clear();
  announce_next_slice();
  told_at_ = clock_.seconds(StepClock::kCompute);
}

// The job cannot go on. The engine keeps its version; slices that wait or still come are given
// back.
void DeviceState::give_up_step() {
  tree_.reset();
  for (const auto& [rank, slice] : waiting_) end_slice(slice, step_, rank);
  waiting_.clear();
  first_bucket_.clear();
}

Status DeviceState::run_slice(VirtualRank rank, std::uint32_t slot) {
  const gpu::Batch batch{parts_->data->pool.words(slot).data()};
  gpu::EstContext& context = next_contexts_[rank];
  float* const gradient = tree_->begin_rank(rank);
  worker::LocalStepDigest digest;
  const bool audited = audited_ == rank;
  const double computed_before = clock_.seconds(StepClock::kCompute);
  clock_.enter(StepClock::kCompute);
  const Result<float> loss =
      local_step(rank, batch, gradient, context, audited ? &digest : nullptr,
                 [this](std::uint32_t bucket) { tree_->bucket_ready(bucket); });
  if (!loss && loss.error().kind == ErrorKind::kUsage)
    return wrong_batch(rank, batch, loss.error());
  if (!loss) return loss.error();
  if (audited) report(worker::AuditDone{generation_, step_, rank, digest.finish(context)});
  losses_[rank] = *loss;
  // Sums are handed over while the local step runs, the first bucket's at its end.
  for (const gpu::NodeReady& node : first_bucket_) node_summed(node);
  first_bucket_.clear();
  clock_.enter(StepClock::kSwitch);
  slice_seconds_.push_back(clock_.seconds(StepClock::kCompute) - computed_before);
  return {};
}

// What the engine says of a mini-batch, with the step and the sample's place in the data.
Error DeviceState::wrong_batch(VirtualRank rank, const gpu::Batch& batch,
                               const Error& error) const {
  const store::EpochSampler& sampler = parts_->data->sampler;
  const auto place = static_cast<std::uint32_t>(*parts_->engine->wrong_sample(batch));
  return usage_error(
      "EST " + std::to_string(rank) + ", step " + std::to_string(step_) + ": " +
      store::training_sample_name(parts_->options.spec.data,
                                  sampler.sample(sampler.cursor(step_), rank, place)) +
      ": " + error.message);
}

// Every gradient that this device computes comes from here. `digest`: of what it gives, or null.
Result<float> DeviceState::local_step(VirtualRank rank, const gpu::Batch& batch, float* gradient,
                                      gpu::EstContext& next, worker::LocalStepDigest* digest,
                                      const gpu::Engine::OnBucketReady& on_bucket_ready) {
  gpu::Engine& engine = *parts_->engine;
  const Version step = engine.replica().version;
  const store::DataCursor cursor = parts_->data->sampler.cursor(step + 1);
  return engine.local_step(
      rank, batch, {cursor.epoch, cursor.step}, gradient, next, [&](std::uint32_t number) {
        const gpu::Bucket& bucket = engine.buckets()[number];
        if (number == 0 && parts_->options.fault)
          parts_->options.fault->strike(step, rank, gradient + bucket.begin);
        if (digest != nullptr) digest->add_bucket(gradient, bucket);
        on_bucket_ready(number);
      });
}

// A local step of another's rank, or of its own once more: in memory of its own, which is given
// back, since audits are rare. Its mini-batch is filled here, beside those of the ESTs.
void DeviceState::perform_effect(const worker::RunAudit& effect) {
  if (abandoned(effect.generation)) return;
  const DataSource& data = *parts_->data;
  const auto batch_words = parts_->options.spec.batch_size *
                           static_cast<std::size_t>(data.samples->layout().words());
  std::vector<float> words(batch_words);
  const Status filled = store::fill_batch(*data.samples, data.sampler,
                                          data.sampler.cursor(effect.step), effect.rank, words);
  const std::string where = "audit of EST " + std::to_string(effect.rank) + ", step " +
                            std::to_string(effect.step) + ": ";
  if (!filled.ok()) return fail_for_data(where + filled.error().message);
  gpu::AlignedBuffer gradient(parts_->engine->table().total_floats());
  gpu::EstContext next;
  worker::LocalStepDigest digest;
  const Result<float> loss = local_step(effect.rank, {words.data()}, gradient.data(), next, &digest,
                                        [](std::uint32_t) {});
  // A device that computes wrongly may find no finite result: that is its opinion.
  const Digest opinion = loss ? digest.finish(next) : digest_of(loss.error().message);
  report(worker::AuditDone{effect.generation, effect.step, effect.rank, opinion});
}

void DeviceState::node_ready(const gpu::NodeReady& node) {
  // Bucket 0 carries the loss of the slice, which is known when the slice ends.
  if (node.bucket == 0) first_bucket_.push_back(node);
  else node_summed(node);
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
    results.push_back({rank, std::bit_cast<std::uint32_t>(losses_.at(rank)),
                       std::make_shared<const std::vector<std::byte>>(
                           gpu::encode(next_contexts_.at(rank)))});
  return results;
}

// --- reduction and update

Result<const float*> DeviceState::read_floats(const protocol::Bulk& bulk, std::int64_t floats) {
  if (bulk.bytes != static_cast<std::uint64_t>(floats) * sizeof(float))
    return failure("bulk data of " + std::to_string(bulk.bytes) + " bytes, expected " +
                   std::to_string(floats * sizeof(float)));
  if (bulk.inline_bytes) return reinterpret_cast<const float*>(bulk.inline_bytes->data());
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
  const Status status = engine.apply_update(reduced, std::move(contexts));
  kill_point("update.after");
  if (!status.ok()) return fail(status.error().message);
  line.version = engine.replica().version;
  line.params = engine.params_digest();
  if (effect.last) line.state = engine.state_digest();
  report(worker::UpdateApplied{std::move(line)});
  self_->send(control_,
              DeviceStats{engine.replica().version, slice_seconds_,
                          clock_.seconds(StepClock::kSwitch), clock_.seconds(StepClock::kWait),
                          tree_ ? tree_->peak_live_buffers() : 0});
}

// --- evaluation

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

caf::behavior device_actor(caf::stateful_actor<DeviceState>* self,
                           std::shared_ptr<DeviceParts> parts, caf::actor control,
                           caf::actor data_workers) {
  self->state.init(self, std::move(parts), std::move(control), std::move(data_workers));
  return {
      [=](const DeviceCommand& command) { self->state.perform(command.effect); },
      [=](const Msg<wire::RunLocalStep>& message) {
        self->state.on_slice(*message.view(),
                             caf::actor_cast<caf::actor>(self->current_sender()));
      },
  };
}

}  // namespace es::actors
