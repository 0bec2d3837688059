// The engine without its device and its updates, which are in engine_device.cc and
// engine_update.cc: its creation, the replica, the checks of inputs, local steps and evaluations.
#include "gpu/engine/engine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "gpu/engine/useful_threads.h"
#include "gpu/graph/blocks.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/precision.h"
#include "gpu/models/models.h"
#include "gpu/optim/update.h"
#include "gpu/params/initialise.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);

std::int64_t parameters_of(const ParamTable& table, const Op& op) {
  std::int64_t count = 0;
  for (const ParamId id : {op.weight, op.bias})
    if (id != kNoParam) count += table[id].count;
  return count;
}

// Returns whether the field allows this word.
bool fits(const SampleField& field, float word) {
  const auto value = std::bit_cast<std::int32_t>(word);
  return field.type == FieldType::kI32 ? field.low <= value && value <= field.high
                                       : std::isfinite(word);
}

// Returns the mean of each sample's rows. The sums use double precision; they are metrics and never
// reach a parameter.
std::vector<double> sample_means(std::span<const float> rows, std::uint64_t samples,
                                 std::int64_t rows_per_sample) {
  std::vector<double> means(samples, 0.0);
  for (std::uint64_t i = 0; i < samples; ++i) {
    for (const float row : rows.subspan(i * rows_per_sample, rows_per_sample))
      means[i] += static_cast<double>(row);
    means[i] /= static_cast<double>(rows_per_sample);
  }
  return means;
}

// Returns the weights of rows with these labels, which are integers: a negative one takes no part.
std::vector<float> weights_of_labels(std::span<const float> labels) {
  std::vector<float> weights;
  for (const float label : labels)
    weights.push_back(std::bit_cast<std::int32_t>(label) < 0 ? 0.0F : 1.0F);
  return weights;
}

// Returns what make() returns, or an error if memory runs out. NoMemory comes from the large
// buffers. A plain bad_alloc comes from the small allocations beside them or from a vendor library.
template <class Make>
auto if_memory_suffices(const JobSpec& spec, Make make) -> decltype(make()) {
  const std::string model =
      "model " + model_text(spec.model) + ", batch_size " + std::to_string(spec.batch_size) + ": ";
  try {
    return make();
  } catch (const NoMemory& missing) {
    return failure(model + missing.what());
  } catch (const std::bad_alloc&) {
    return failure(model + "not enough memory for its graph and tables");
  }
}

// Chooses what is computed again in the backward pass (JobSpec::recompute).
Graph with_regions(Graph model, const std::string& recompute) {
  if (recompute == "blocks") return cut_into_blocks(model);
  if (recompute == "none")
    for (Op& op : model.ops) op.region = 0;
  return model;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const JobSpec& spec, const SampleLayout& layout,
                                               const EngineOptions& options) {
  auto model =
      if_memory_suffices(spec, [&] { return build_model(spec.model, spec.batch_size, layout); });
  if (!model) return model.error();
  return create(spec, *std::move(model), options);
}

Result<std::unique_ptr<Engine>> Engine::create(const JobSpec& spec, Graph model,
                                               const EngineOptions& options) {
  if (!cpu_supports(options.cpu_class))
    return usage_error("device type " + es::device_type(options.cpu_class).name +
                       ": this processor cannot execute it");
  // These rates depend on the length of the whole job.
  const bool by_length = spec.schedule.kind == "cosine" || spec.schedule.kind == "linear";
  if (by_length && options.total_steps == 0)
    return usage_error("schedule.kind = \"" + spec.schedule.kind +
                       "\": needs the total number of steps, got 0");
  return if_memory_suffices(spec, [&]() -> Result<std::unique_ptr<Engine>> {
    // The layout is copied first, because the model is moved into its program.
    const SampleLayout layout = model.layout;
    model.bf16 = spec.precision == "bf16";
    // A vendor library computes whole products, for which the logits must be whole.
    const bool by_vendor = options.vendor && options.device != DeviceKind::kCpu;
    Program program = compile(with_regions(std::move(model), spec.recompute),
                              by_vendor ? INT64_MAX : kChunkedLogits);
    auto runs = group_runs(program.graph.table, spec.optimizer.groups);
    if (!runs) return runs.error();
    EngineOptions fitting = options;
    if (!options.all_threads) fitting.threads = useful_threads(program.graph, options.threads);
    std::unique_ptr<Engine> engine(
        new Engine(spec, layout, fitting, program.graph.table, *std::move(runs)));
    auto runner = engine->make_runner(std::move(program));
    if (!runner) return runner.error();
    engine->runner_ = *std::move(runner);
    return engine;
  });
}

Engine::Engine(const JobSpec& spec, const SampleLayout& layout, const EngineOptions& options,
               const ParamTable& table, std::vector<GroupRun> runs)
    : spec_(spec),
      layout_(layout),
      options_(options),
      kernels_(kernel_table(options.cpu_class)),
      table_(table),
      buckets_(cut_buckets(table_, std::max<std::int64_t>(1, options.bucket_bytes / kFloatBytes))),
      parallel_(options.threads),
      optimizer_(spec.optimizer, spec.schedule, options.total_steps, spec.max_p, std::move(runs)),
      squares_(optimizer_.clips() ? table_.trained().size() : 0) {}

const ParamTable& Engine::table() const {
  return table_;
}
const std::vector<Bucket>& Engine::buckets() const {
  return buckets_;
}
const KernelTable& Engine::kernels() const {
  return kernels_;
}
const DeviceType& Engine::device_type() const {
  return device_type_;
}
Status Engine::device_status() const {
  return runner_->check();
}
void Engine::lose_device(const Error& error) {
  runner_->lose_device(error);
}
const Graph& Engine::graph() const {
  return runner_->graph();
}
std::size_t Engine::forward_ops() const {
  return runner_->forward_ops();
}
float Engine::learning_rate(std::uint64_t step) const {
  return optimizer_.rate(step);
}
std::size_t Engine::moment_count() const {
  return optimizer_.moment_count();
}
std::int64_t Engine::kept_floats() const {
  return spec_.lora.rank != 0 ? table_.trained_floats() : table_.total_floats();
}
GradientOrder Engine::gradient_order() const {
  return spec_.level == DeterminismLevel::kD0 ? GradientOrder::kPerWorker : GradientOrder::kTree;
}
bool Engine::merges_on_device() const {
  return options_.device != DeviceKind::kCpu;
}
cuda::DeviceReduction* Engine::reduction() {
  return runner_->reduction();
}
std::string Engine::slower_because() const {
  return runner_->slower_because();
}
void Engine::set_observer(OpObserver* observer) {
  runner_->set_observer(observer);
}

std::span<const float> Engine::values(TensorId t) const {
  return runner_->values(t);
}

std::span<const float> Engine::gradient(ParamId param) const {
  return runner_->gradient(param);
}

MemoryUse Engine::memory_use() const {
  std::int64_t constants = 0;
  for (const Constant& c : graph().constants)
    constants += static_cast<std::int64_t>(c.words.size());
  const std::int64_t trained = table_.trained_floats() * kFloatBytes;
  return {.params = table_.total_floats() * kFloatBytes,
          .moments = trained * static_cast<std::int64_t>(moment_count()),
          .constants = constants * kFloatBytes,
          .arena = runner_->plan().arena_floats * kFloatBytes,
          .arena_live_peak = runner_->plan().live_peak_floats * kFloatBytes,
          .workspace = runner_->workspace_floats() * kFloatBytes,
          .gradient_slot = trained,
          .device_gradients = runner_->gradient_memory().device_floats * kFloatBytes,
          .spilled_gradients = runner_->gradient_memory().pinned_floats * kFloatBytes,
          .context = table_.stat_floats() * kFloatBytes};
}

EngineDescription Engine::describe() const {
  EngineDescription description{.model = graph().name,
                                .kernel_class = device_type_.name,
                                .ops = {},
                                .parameters = table_.parameter_count(),
                                .buckets = buckets_.size(),
                                .memory = memory_use()};
  // Backward operators follow from the forward operators and are not listed.
  for (std::size_t i = 0; i < runner_->forward_ops(); ++i) {
    const Op& op = graph().ops[i];
    if (is_part_of_conversion(graph(), i)) continue;
    description.ops.push_back({.name = op.name,
                               .kind = op_name(op.kind),
                               .detail = op_detail(op),
                               .kernel = op_def(op.kind).kernels,
                               .output = shape_text(graph().shape(op.out[0])),
                               .parameters = parameters_of(table_, op)});
  }
  return description;
}

std::vector<std::string> Engine::vendor_ops() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph().ops.size(); ++i) {
    const std::string algorithm = runner_->vendor_algorithm(i);
    const Op& op = graph().ops[i];
    if (!algorithm.empty()) names.push_back(op.name + " (" + op_name(op.kind) + "): " + algorithm);
  }
  return names;
}

std::string Engine::vendor_library() const {
  return runner_->vendor_library();
}

std::vector<std::string> Engine::vendor_refusals() const {
  return runner_->vendor_refusals();
}

Status Engine::init_replica() {
  return if_memory_suffices(spec_, [&]() -> Status {
    // The new replica is complete before it replaces the old one. If memory runs out, the old
    // replica is unchanged.
    Replica fresh = empty_replica(table_, moment_count());
    initialise_params(table_, spec_.seed, fresh.params.data());
    for (VirtualRank rank = 0; rank < spec_.max_p; ++rank)
      fresh.contexts.push_back(
          {.rank = rank, .version = 0, .cursor = {}, .stats = initial_stats(table_)});
    replica_ = std::move(fresh);
    replica_changed();
    return {};
  });
}

Status Engine::install(Replica replica) {
  const std::string name = "replica of version " + std::to_string(replica.version);
  // All checks come before the assignment at the end, so an error leaves the engine unchanged.
  if (replica.moments.size() != moment_count())
    return failure(name + " has " + std::to_string(replica.moments.size()) +
                   " optimizer moments: allowed is " + std::to_string(moment_count()) +
                   " for optimizer " + spec_.optimizer.kind);
  const auto check_size = [&](const AlignedBuffer& array, std::int64_t floats) {
    if (array.floats() == floats) return Status();
    return Status(failure(name + " has " + std::to_string(array.floats()) + " floats: allowed is " +
                          std::to_string(floats) + " for model " + model_text(spec_.model)));
  };
  ES_RETURN_IF_ERROR(check_size(replica.params, table_.total_floats()));
  for (const AlignedBuffer& moment : replica.moments)
    ES_RETURN_IF_ERROR(check_size(moment, table_.trained_floats()));
  ES_RETURN_IF_ERROR(check_contexts(replica.contexts, replica.version));
  ES_RETURN_IF_ERROR(check_finite(replica));
  replica_ = std::move(replica);
  replica_changed();
  return {};
}

void Engine::replica_changed() {
  frozen_digest_ = gpu::frozen_digest(table_, replica_.params.data());
  evaluates_average_ = false;
  runner_->params_changed();
  if (forward_) forward_->params_changed();
  if (Updater* const updater = runner_->updater()) updater->replica_changed();
  fetched_ = true;
  usable_ = {};
}

namespace {

// All statistics must be finite, and no variance may be negative, because its square root would be
// NaN.
Status check_statistics(const ParamTable& table, const EstContext& context,
                        const std::string& where) {
  for (const StatInfo& s : table.stats()) {
    for (std::int64_t i = s.offset; i < s.offset + s.count; ++i) {
      const float value = context.stats[static_cast<std::size_t>(i)];
      if (std::isfinite(value) && !(s.is_variance && value < 0.0F)) continue;
      return failure(where + "statistic " + s.name + " of EST " + std::to_string(context.rank) +
                     " = " + std::to_string(value) + ": allowed is a finite number" +
                     (s.is_variance ? " of at least 0" : ""));
    }
  }
  return {};
}

}  // namespace

Status Engine::check_finite(const Replica& replica) const {
  const std::string where = "version " + std::to_string(replica.version) + ": ";
  std::string bad = first_non_finite(table_.params(), replica.params.data(), kernels_);
  if (!bad.empty()) return failure(where + "parameter " + bad + " is not finite");
  for (const AlignedBuffer& moment : replica.moments) {
    bad = first_non_finite(table_.trained(), moment.data(), kernels_);
    if (!bad.empty()) return failure(where + "the optimizer's moment of " + bad + " is not finite");
  }
  for (const EstContext& c : replica.contexts)
    ES_RETURN_IF_ERROR(check_statistics(table_, c, where));
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

std::span<const std::byte> Engine::frozen_pages() const {
  const AlignedBuffer& params = replica_.params;
  const AlignedBuffer::Pages pages = params.pages_behind(table_.trained_floats());
  return std::as_bytes(std::span(params.data(), static_cast<std::size_t>(params.floats())))
      .subspan(pages.begin, pages.bytes);
}

bool Engine::share_frozen(int fd) {
  // The average has its own copy of the frozen parameters, which is made again when it is needed.
  averaged_ = AlignedBuffer();
  use_parameters();
  return replica_.params.map_pages(replica_.params.pages_behind(table_.trained_floats()), fd);
}

Error Engine::WrongValue::error() const {
  const std::string where =
      "field " + field->name + " of sample " + std::to_string(sample()) + " in the batch: ";
  if (field->type == FieldType::kF32)
    return usage_error(where + "value " + std::to_string(word) + ": allowed is a finite number");
  return usage_error(where + "value " + std::to_string(std::bit_cast<std::int32_t>(word)) +
                     ": allowed is " + std::to_string(field->low) + " to " +
                     std::to_string(field->high));
}

std::optional<Engine::WrongValue> Engine::find_wrong(const SampleLayout& layout,
                                                     std::int64_t samples, const Batch& batch,
                                                     Values values) const {
  const float* words = batch.words;
  for (const SampleField& field : layout.fields) {
    const std::int64_t count = field.words() * samples;
    // Integers are always compared with their range, because an index outside of it would read
    // memory that does not belong to its table. For floats the fast kernel answers first, and the
    // slow search runs only if it has found something.
    const bool suspicious = field.type == FieldType::kI32 ||
                            (values == Values::kAll && kernels_.any_non_finite(count, words));
    if (suspicious) {
      const float* bad =
          std::find_if(words, words + count, [&](float word) { return !fits(field, word); });
      if (bad != words + count) return WrongValue{&field, bad - words, *bad};
    }
    words += count;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Engine::wrong_sample(const Batch& batch) const {
  const auto wrong = find_wrong(batch);
  return wrong ? std::optional(wrong->sample()) : std::nullopt;
}

Status Engine::check_fields(const Batch& batch) {
  // A serial names the contents of a batch; 0 stands for unknown contents. prepare() has usually
  // checked the batch while the device computed the step before.
  if (batch.serial != 0 && batch.serial == checked_) return {};
  const auto wrong = find_wrong(batch);
  if (!wrong) checked_ = batch.serial;
  return wrong ? Status(wrong->error()) : Status();
}

Error Engine::fault_error(VirtualRank rank, const Fault& fault) const {
  const std::string where =
      "EST " + std::to_string(rank) + ", step " + std::to_string(replica_.version) + ": ";
  if (fault.op == nullptr) return failure(where + "the loss is not finite");
  const std::string op = fault.op->name + " (" + op_name(fault.op->kind) + ")";
  if (fault.param == kNoParam)
    return failure(where +
                   "a value that is not finite; the first operator with such an output: " + op);
  return failure(where + "the gradient of " + table_[fault.param].name +
                 " is not finite; operator: " + op);
}

StepInput Engine::input_of(VirtualRank rank, const Batch& batch) const {
  return {
      .stats = replica_.contexts[rank].stats.data(),
      .batch = batch,
      .key = {
          .seed = spec_.seed, .step = static_cast<std::uint32_t>(replica_.version), .rank = rank}};
}

void Engine::pin_batches(std::span<const float> memory, std::shared_ptr<const void> owner) {
  runner_->pin_batches(memory, std::move(owner));
}

void Engine::prefetch(VirtualRank rank, const Batch& batch) {
  ES_CHECK(rank < replica_.contexts.size() && batch.serial != 0);
  following_ = {rank, batch};
}

// A batch with wrong values is not prefetched. The local step that uses it returns the error.
void Engine::prepare(const Following& following) {
  if (check_fields(following.batch).ok())
    runner_->prefetch(input_of(following.rank, following.batch));
}

Result<float> Engine::local_step(VirtualRank rank, const Batch& batch, SamplerCursor next_cursor,
                                 const GradientTarget& gradient, EstContext& next,
                                 const OnBucketReady& on_bucket_ready) {
  ES_CHECK(rank < replica_.contexts.size());
  // An announcement is valid for this step only, even if the step fails below.
  const std::optional<Following> following = std::exchange(following_, std::nullopt);
  ES_RETURN_IF_ERROR(usable_);
  ES_RETURN_IF_ERROR(check_fields(batch));
  use_parameters();
  const EstContext& current = replica_.contexts[rank];
  next.rank = rank;
  next.version = replica_.version + 1;
  next.cursor = next_cursor;
  // The statistics of the next version are written beside those of the current one. So a step that
  // fails or is repeated starts from the same values.
  next.stats.resize(current.stats.size());
  const StepInput input = input_of(rank, batch);
  const Result<LocalStepResult> run = runner_->run_local_step({.params = replica_.params.data(),
                                                               .stats = input.stats,
                                                               .next_stats = next.stats.data(),
                                                               .gradient = gradient,
                                                               .batch = batch,
                                                               .key = input.key,
                                                               .meanwhile =
                                                                   [&] {
                                                                     if (following)
                                                                       prepare(*following);
                                                                   }},
                                                              on_bucket_ready);
  if (!run) return run.error();
  // If a bad value entered the step, it may reach the loss although no operator is at fault.
  // fault_error() then reports the loss alone.
  if (run->fault.op != nullptr || !std::isfinite(run->loss)) return fault_error(rank, run->fault);
  return run->loss;
}

std::vector<double> Engine::sample_weights(std::uint64_t count) const {
  const TensorId rows = graph().row_weight;
  if (rows == kNoTensor) return std::vector<double>(count, 1.0);
  const std::span<const float> words = runner_->values(rows);
  const bool labels = graph().tensors[static_cast<std::size_t>(rows)].type == ElementType::kI32;
  return labels ? sample_means(weights_of_labels(words), count, graph().rows_per_sample)
                : sample_means(words, count, graph().rows_per_sample);
}

// The parameters of an evaluation. A device gets the average once, and its own parameters back
// before the next step (use_parameters()).
Result<const float*> Engine::evaluated_params() {
  if (!optimizer_.averages() || version() == 0) return replica_.params.data();
  const AlignedBuffer& average = replica_.moments.back();
  const std::int64_t trained = table_.trained_floats(), all = table_.total_floats();
  if (!std::exchange(evaluates_average_, true)) {
    ES_RETURN_IF_ERROR(fetch_replica());
    runner_->params_changed();
    if (trained < all) {
      if (averaged_.floats() != all) averaged_ = AlignedBuffer(all, "averaged parameters");
      std::copy_n(average.data(), trained, averaged_.data());
      std::copy_n(replica_.params.data() + trained, all - trained, averaged_.data() + trained);
    }
  }
  return trained < all ? averaged_.data() : average.data();
}

void Engine::use_parameters() {
  if (std::exchange(evaluates_average_, false)) runner_->params_changed();
}

Result<EvalBatch> Engine::evaluate(const Batch& full_batch, std::uint64_t count,
                                   std::uint64_t number, float* free_slot) {
  ES_CHECK(!replica_.contexts.empty() && count >= 1 && count <= spec_.batch_size);
  ES_RETURN_IF_ERROR(usable_);
  ES_RETURN_IF_ERROR(check_fields(full_batch));
  const auto params = evaluated_params();
  if (!params) return params.error();
  // Evaluation always uses the statistics of rank 0, whichever ranks this worker runs. Its random
  // numbers are the same at every version, so that the losses of two versions can be compared.
  const StepInput input{
      .stats = replica_.contexts[0].stats.data(),
      .batch = full_batch,
      .key = {
          .seed = spec_.seed, .step = static_cast<std::uint32_t>(number), .rank = kEvaluationRank}};
  ES_RETURN_IF_ERROR(
      if_memory_suffices(spec_, [&] { return runner_->run_eval(*params, input, free_slot); }));
  EvalBatch result;
  for (const TensorId t : graph().outputs) {
    // The rows of the samples behind the first `count` are filled up by the caller and are left
    // out.
    const std::span<const float> values = runner_->values(t);
    result.outputs.push_back(values.first(values.size() / spec_.batch_size * count));
  }
  result.losses = sample_means(runner_->values(graph().row_loss), count, graph().rows_per_sample);
  result.weights = sample_weights(count);
  // values() returns no error of the device, so the device is asked once after all copies.
  ES_RETURN_IF_ERROR(runner_->check());
  return result;
}

namespace {

bool same_places(const ParamTable& a, const ParamTable& b) {
  return std::ranges::equal(a.params(), b.params(), [](const ParamInfo& x, const ParamInfo& y) {
    return x.name == y.name && x.offset == y.offset && x.torch_shape == y.torch_shape;
  });
}

}  // namespace

Status Engine::add_forward(Graph model) {
  if (!same_places(model.table, table_))
    return usage_error("model " + model.name +
                       " has other parameters than the model of the engine");
  return if_memory_suffices(spec_, [&]() -> Status {
    model.bf16 = spec_.precision == "bf16";
    auto runner = make_runner(compile_forward(std::move(model)));
    if (!runner) return runner.error();
    forward_ = *std::move(runner);
    return {};
  });
}

Result<std::vector<std::span<const float>>> Engine::evaluate_forward(const Batch& batch) {
  ES_CHECK(forward_ != nullptr && !replica_.contexts.empty());
  ES_RETURN_IF_ERROR(usable_);
  const Graph& graph = forward_->graph();
  // The other numbers are results of earlier evaluations, which may be many.
  const auto wrong = find_wrong(graph.layout, graph.batch, batch, Values::kIntegers);
  if (wrong) return wrong->error();
  const auto params = evaluated_params();
  if (!params) return params.error();
  const StepInput input{.stats = replica_.contexts[0].stats.data(),
                        .batch = batch,
                        .key = {.seed = spec_.seed, .rank = kEvaluationRank}};
  ES_RETURN_IF_ERROR(
      if_memory_suffices(spec_, [&] { return forward_->run_eval(*params, input, nullptr); }));
  std::vector<std::span<const float>> outputs;
  for (const TensorId t : graph.outputs) outputs.push_back(forward_->values(t));
  ES_RETURN_IF_ERROR(forward_->check());
  return outputs;
}

}  // namespace es::gpu
