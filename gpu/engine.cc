#include "gpu/engine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "gpu/graph/differentiate.h"
#include "gpu/models/models.h"
#include "gpu/optim/schedule.h"
#include "gpu/params/initialise.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);

// Whether a gradient holds an infinity or a NaN: the exponent's bits are all ones.
bool has_non_finite(const float* values, std::int64_t count) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  bool found = false;
  for (std::int64_t i = 0; i < count; ++i)
    found |= (std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent;
  return found;
}

std::int64_t first_maximum(const float* values, std::int64_t count) {
  return std::max_element(values, values + count) - values;
}

std::int64_t parameters_of(const ParamTable& table, const Op& op) {
  std::int64_t count = 0;
  for (const ParamId id : {op.weight, op.bias})
    if (id != kNoParam) count += table[id].count;
  return count;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const JobSpec& spec, DataShape data,
                                               const EngineOptions& options) {
  if (!cpu_supports(options.cpu_class))
    return usage_error("device type " + device_type(options.cpu_class).name +
                       ": this processor cannot execute it");
  if (spec.schedule.kind == "cosine" && options.total_steps == 0)
    return usage_error("schedule.kind = \"cosine\": needs the total number of steps, got 0");
  Result<Graph> graph =
      build_model(spec.model, {spec.batch_size, data.height, data.width, data.channels});
  if (!graph) return graph.error();
  return std::unique_ptr<Engine>(new Engine(spec, options, *std::move(graph)));
}

Engine::Engine(const JobSpec& spec, const EngineOptions& options, Graph graph)
    : spec_(spec),
      options_(options),
      kernels_(kernel_table(options.cpu_class)),
      table_(graph.table),
      buckets_(cut_buckets(table_, std::max<std::int64_t>(1, options.bucket_bytes / kFloatBytes))),
      eval_images_(graph.shape(graph.input).count()),
      eval_labels_(spec.batch_size, 0) {
  executor_ = std::make_unique<Executor>(differentiate(std::move(graph)), kernels_, buckets_);
}

const ParamTable& Engine::table() const {
  return table_;
}
const std::vector<Bucket>& Engine::buckets() const {
  return buckets_;
}
const KernelTable& Engine::kernels() const {
  return kernels_;
}
const Replica& Engine::replica() const {
  return replica_;
}
Digest Engine::params_digest() const {
  return gpu::params_digest(table_, replica_);
}
Digest Engine::state_digest() const {
  return gpu::state_digest(table_, replica_);
}

float Engine::learning_rate(std::uint64_t step) const {
  return gpu::learning_rate(spec_.schedule, spec_.optimizer.learning_rate, step,
                            options_.total_steps);
}

MemoryUse Engine::memory_use() const {
  return {.params = table_.total_floats() * kFloatBytes,
          .packed = executor_->packed_floats() * kFloatBytes,
          .arena = executor_->plan().arena_floats * kFloatBytes,
          .arena_live_peak = executor_->plan().live_peak_floats * kFloatBytes,
          .workspace = executor_->workspace_floats() * kFloatBytes,
          .gradient_slot = table_.total_floats() * kFloatBytes,
          .context = table_.stat_floats() * kFloatBytes};
}

EngineDescription Engine::describe() const {
  const Graph& graph = executor_->graph();
  EngineDescription description{.model = graph.name,
                                .kernel_class = device_type(kernels_.cpu_class).name,
                                .ops = {},
                                .parameters = table_.parameter_count(),
                                .buckets = buckets_.size(),
                                .memory = memory_use()};
  for (std::size_t i = 0; i < executor_->forward_ops(); ++i) {
    const Op& op = graph.ops[i];
    description.ops.push_back({.name = op.name,
                               .kind = op_name(op.kind),
                               .kernel = kernel_names(op),
                               .output = shape_text(graph.shape(op.out[0])),
                               .parameters = parameters_of(table_, op)});
  }
  return description;
}

void Engine::init_replica() {
  Replica fresh{.version = 0,
                .params = AlignedBuffer(table_.total_floats()),
                .momentum = AlignedBuffer(table_.total_floats()),
                .contexts = {}};
  initialise_params(table_, spec_.seed, fresh.params.data());
  for (VirtualRank rank = 0; rank < spec_.max_p; ++rank)
    fresh.contexts.push_back(
        {.rank = rank, .version = 0, .cursor = {}, .stats = initial_stats(table_)});
  replica_ = std::move(fresh);
  executor_->invalidate_weights();
}

Status Engine::install(Replica replica) {
  for (const AlignedBuffer* buffer : {&replica.params, &replica.momentum})
    if (buffer->floats() != table_.total_floats())
      return failure("replica of version " + std::to_string(replica.version) + " has " +
                     std::to_string(buffer->floats()) + " floats: allowed is " +
                     std::to_string(table_.total_floats()) + " for model " + spec_.model.name);
  ES_RETURN_IF_ERROR(check_contexts(replica.contexts, replica.version));
  replica_ = std::move(replica);
  executor_->invalidate_weights();
  return {};
}

Status Engine::check_contexts(const std::vector<EstContext>& contexts, Version version) const {
  if (contexts.size() != spec_.max_p)
    return failure(std::to_string(contexts.size()) +
                   " EST contexts: allowed is max_p = " + std::to_string(spec_.max_p));
  for (VirtualRank rank = 0; rank < spec_.max_p; ++rank) {
    const EstContext& c = contexts[rank];
    const bool fits = c.rank == rank && c.version == version &&
                      static_cast<std::int64_t>(c.stats.size()) == table_.stat_floats();
    if (!fits)
      return failure("EST context " + std::to_string(rank) + " is of rank " +
                     std::to_string(c.rank) + ", version " + std::to_string(c.version) + ", " +
                     std::to_string(c.stats.size()) + " statistics: allowed is rank " +
                     std::to_string(rank) + ", version " + std::to_string(version) + ", " +
                     std::to_string(table_.stat_floats()) + " statistics");
  }
  return {};
}

Status Engine::check_labels(const std::int32_t* labels, std::uint64_t count) const {
  const auto classes = static_cast<std::int32_t>(spec_.model.classes);
  for (std::uint64_t i = 0; i < count; ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      return failure("label " + std::to_string(labels[i]) + " of sample " + std::to_string(i) +
                     " in the batch: allowed is 0 to " + std::to_string(classes - 1) +
                     " (model.classes)");
  return {};
}

Error Engine::non_finite_error(VirtualRank rank, const LocalStep& step) {
  const std::string op = executor_->first_non_finite_op(step);
  return failure(
      "EST " + std::to_string(rank) + ", step " + std::to_string(replica_.version) +
      ": the loss or the statistics are not finite; first operator with such an output: " +
      (op.empty() ? "none" : op));
}

Result<float> Engine::local_step(VirtualRank rank, const Batch& batch, SamplerCursor next_cursor,
                                 float* grad_out, EstContext& next,
                                 const OnBucketReady& on_bucket_ready) {
  ES_CHECK(rank < replica_.contexts.size());
  ES_RETURN_IF_ERROR(check_labels(batch.labels, spec_.batch_size));
  const EstContext& current = replica_.contexts[rank];
  next.rank = rank;
  next.version = replica_.version + 1;
  next.cursor = next_cursor;
  next.stats.resize(current.stats.size());
  const LocalStep step{.params = replica_.params.data(),
                       .stats = current.stats.data(),
                       .next_stats = next.stats.data(),
                       .grads = grad_out,
                       .batch = batch};
  const LocalStepResult result = executor_->run_local_step(step, on_bucket_ready);
  if (!result.finite) return non_finite_error(rank, step);
  return result.loss;
}

Status Engine::check_gradients(std::span<const float* const> reduced) const {
  for (const ParamInfo& p : table_.params()) {
    const std::uint32_t bucket = bucket_of(buckets_, p);
    const float* gradient = reduced[bucket] + (p.offset - buckets_[bucket].begin);
    if (has_non_finite(gradient, p.count))
      return failure("step " + std::to_string(replica_.version) + ": the gradient of " + p.name +
                     " is not finite");
  }
  return {};
}

Status Engine::apply_update(std::span<const float* const> reduced, std::vector<EstContext> next) {
  ES_CHECK(reduced.size() == buckets_.size());
  ES_RETURN_IF_ERROR(check_contexts(next, replica_.version + 1));
  ES_RETURN_IF_ERROR(check_gradients(reduced));
  const float grad_scale = 1.0F / static_cast<float>(spec_.max_p);
  const float rate = learning_rate(replica_.version);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::int64_t begin = buckets_[b].begin;
    kernels_.sgd(buckets_[b].floats(), reduced[b], grad_scale, rate,
                 static_cast<float>(spec_.optimizer.momentum),
                 static_cast<float>(spec_.optimizer.weight_decay), replica_.params.data() + begin,
                 replica_.momentum.data() + begin);
  }
  executor_->invalidate_weights();
  replica_.contexts = std::move(next);
  ++replica_.version;
  return {};
}

Result<EvalTotals> Engine::evaluate(const Batch& samples, std::uint64_t count) {
  ES_CHECK(!replica_.contexts.empty());
  ES_RETURN_IF_ERROR(check_labels(samples.labels, count));
  const std::uint64_t batch_size = spec_.batch_size;
  const std::int64_t sample_floats = eval_images_.floats() / static_cast<std::int64_t>(batch_size);
  const std::int64_t classes = spec_.model.classes;
  EvalTotals totals;
  for (std::uint64_t begin = 0; begin < count; begin += batch_size) {
    const std::uint64_t n = std::min(batch_size, count - begin);
    Batch batch{samples.images + static_cast<std::int64_t>(begin) * sample_floats,
                samples.labels + begin};
    if (n < batch_size) {
      std::memcpy(eval_images_.data(), batch.images, n * sample_floats * sizeof(float));
      std::copy_n(batch.labels, n, eval_labels_.begin());
      batch = {eval_images_.data(), eval_labels_.data()};
    }
    const Executor::EvalOutput out =
        executor_->run_eval(replica_.params.data(), replica_.contexts[0].stats.data(), batch);
    for (std::uint64_t i = 0; i < n; ++i) {
      const float* logits = out.logits + static_cast<std::int64_t>(i) * classes;
      totals.correct += first_maximum(logits, classes) == batch.labels[i] ? 1 : 0;
      totals.loss_sum += static_cast<double>(out.row_loss[i]);
    }
    totals.samples += n;
  }
  return totals;
}

}  // namespace es::gpu
