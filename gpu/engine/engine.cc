// The engine's creation, its replica and its local steps. Its device is in engine_device.cc, and so
// are the updates in engine_update.cc, the checks of values in engine_checks.cc and the evaluations
// in engine_evaluate.cc.
#include "gpu/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpu/engine/if_memory_suffices.h"
#include "gpu/engine/useful_threads.h"
#include "gpu/graph/arithmetic.h"
#include "gpu/graph/blocks.h"
#include "gpu/graph/executor.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/leaving.h"
#include "gpu/graph/memory_plan.h"
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

// Chooses what is computed again in the backward pass (JobSpec::recompute).
Graph with_regions(Graph model, const std::string& recompute) {
  if (recompute == "blocks") return cut_into_blocks(model);
  if (recompute == "none")
    for (Op& op : model.ops) op.region = 0;
  return model;
}

// Returns the programs of the model.
std::vector<Program> compiled(const JobSpec& spec, Graph model, const EngineOptions& options) {
  std::vector<Graph> further = std::exchange(model.programs, {});
  // A vendor library computes whole products, for which the logits must be whole.
  const bool by_vendor =
      options.vendor && options.device != DeviceKind::kCpu && spec.arithmetic == "fp32";
  std::vector<Program> programs;
  const auto add = [&](Graph graph) {
    graph.bf16 = spec.precision == "bf16";
    graph = choose_arithmetic(std::move(graph), spec.arithmetic);
    programs.push_back(compile(with_regions(std::move(graph), spec.recompute),
                               by_vendor ? INT64_MAX : kChunkedLogits));
  };
  add(std::move(model));
  for (Graph& graph : further) add(std::move(graph));
  return programs;
}

// Returns the threads that the program needs for which most are of use.
std::uint32_t threads_for(const std::vector<Program>& programs, std::uint32_t threads) {
  std::uint32_t most = 1;
  for (const Program& program : programs)
    most = std::max(most, useful_threads(program.graph, threads));
  return most;
}

// What an engine is made of, before it has memory.
struct Parts {
  std::shared_ptr<const ModelUpdates> updates;
  std::vector<Program> programs;
  std::vector<GroupRun> runs;
  CapturedUpdates captured;
  const ParamTable& table() const { return programs.front().graph.table; }
};

Result<Parts> parts_of(const JobSpec& spec, Graph model, const EngineOptions& options) {
  Parts parts;
  parts.updates = model.updates;
  parts.programs = compiled(spec, std::move(model), options);
  const ParamTable& table = parts.table();
  auto runs = group_runs(table, spec.optimizer.groups);
  if (!runs) return runs.error();
  auto captured = captured_updates(table, parts.updates.get(), spec.optimizer, spec.schedule,
                                   options.total_steps);
  if (!captured) return captured.error();
  if (parts.updates != nullptr) *runs = captured->runs;
  runs = clipped_runs(*std::move(runs), table, spec.optimizer.clip_groups);
  if (!runs) return runs.error();
  parts.runs = *std::move(runs);
  parts.captured = *std::move(captured);
  return parts;
}

// The arrays that follow from the parameters alone, without moments.
MemoryUse array_bytes(const ParamTable& table) {
  return {.params = table.total_floats() * kFloatBytes,
          .gradient_slot = table.trained_floats() * kFloatBytes,
          .context = table.stat_floats() * kFloatBytes};
}

std::vector<Bucket> buckets_of(const ParamTable& table, const EngineOptions& options) {
  return cut_buckets(table, std::max<std::int64_t>(1, options.bucket_bytes / kFloatBytes));
}

// Programs share the arena, and each has constants of its own.
void add_program(MemoryUse& use, const Program& program, const MemoryPlan& plan,
                 const EngineOptions& options) {
  const Graph& graph = program.graph;
  if (options.device == DeviceKind::kCpu)
    use.gradient_leaving =
        std::max(use.gradient_leaving,
                 kFloatBytes * leaving_floats(program, plan, buckets_of(graph.table, options),
                                              kLeavingBytes / kFloatBytes));
  for (const Constant& c : graph.constants)
    use.constants += static_cast<std::int64_t>(c.words.size()) * kFloatBytes;
  use.arena = std::max(use.arena, plan.arena_floats * kFloatBytes);
  use.arena_live_peak = std::max(use.arena_live_peak, plan.live_peak_floats * kFloatBytes);
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
    auto made = parts_of(spec, std::move(model), options);
    if (!made) return made.error();
    Parts& parts = *made;
    EngineOptions fitting = options;
    if (!options.all_threads) fitting.threads = threads_for(parts.programs, options.threads);
    std::unique_ptr<Engine> engine(
        new Engine(spec, fitting, parts.table(), std::move(parts.runs), parts.captured.optimizer));
    if (parts.captured.any_whole())
      engine->whole_updates_ = std::make_unique<WholeUpdates>(*parts.updates, parts.captured,
                                                              engine->kernels_, engine->parallel_);
    parts.captured.make_machine_code(options.cpu_class);
    engine->updates_ = parts.updates;
    if (parts.updates != nullptr)
      engine->states_ = param_states(engine->table_, *parts.updates, parts.captured);
    auto runner = engine->make_runner(std::move(parts.programs));
    if (!runner) return runner.error();
    engine->runner_ = *std::move(runner);
    return engine;
  });
}

Result<MemoryUse> Engine::planned_memory(const JobSpec& spec, Graph model,
                                         const EngineOptions& options) {
  return if_memory_suffices(spec, [&]() -> Result<MemoryUse> {
    auto made = parts_of(spec, std::move(model), options);
    if (!made) return made.error();
    Parts& parts = *made;
    const bool on_cpu = options.device == DeviceKind::kCpu;
    const int threads = static_cast<int>(threads_for(parts.programs, options.threads));
    MemoryUse use = array_bytes(parts.table());
    for (const Program& program : parts.programs) {
      const MemoryPlan plan =
          plan_memory(program, on_cpu ? GradientsInForward::kYes : GradientsInForward::kNo);
      add_program(use, program, plan, options);
      use.workspace =
          std::max(use.workspace,
                   kFloatBytes * max_workspace(program, kernel_table(options.cpu_class), threads));
    }
    const Optimizer optimizer(spec.optimizer, spec.schedule, options.total_steps, spec.max_p,
                              std::move(parts.runs), std::move(parts.captured.optimizer));
    use.moments = use.gradient_slot * static_cast<std::int64_t>(optimizer.moment_count());
    return use;
  });
}

Engine::Engine(const JobSpec& spec, const EngineOptions& options, const ParamTable& table,
               std::vector<GroupRun> runs, CapturedOptimizer captured)
    : spec_(spec),
      options_(options),
      kernels_(kernel_table(options.cpu_class)),
      table_(table),
      buckets_(buckets_of(table_, options)),
      held_(buckets_.size(), true),
      held_ranges_(ranges_of(buckets_, held_)),
      next_(buckets_.size(), false),
      parallel_(options.threads),
      optimizer_(spec.optimizer, spec.schedule, options.total_steps, spec.max_p, std::move(runs),
                 std::move(captured)),
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
const Graph& Engine::graph(std::uint32_t program) const {
  return runner_->graph(program);
}
std::uint32_t Engine::programs() const {
  return static_cast<std::uint32_t>(runner_->programs());
}
std::size_t Engine::forward_ops(std::uint32_t program) const {
  return runner_->program(program).first_backward;
}
float Engine::learning_rate(std::uint64_t step) const {
  return optimizer_.rate(step);
}
std::size_t Engine::moment_count() const {
  return optimizer_.moment_count();
}
bool Engine::clips() const {
  return optimizer_.clips();
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
  MemoryUse use = array_bytes(table_);
  for (std::size_t program = 0; program < runner_->programs(); ++program)
    add_program(use, runner_->program(program), runner_->plan(program), options_);
  for (const FloatRange& range : held_ranges_)
    use.moments += range.floats() * kFloatBytes * static_cast<std::int64_t>(moment_count());
  use.workspace = runner_->workspace_floats() * kFloatBytes;
  use.device_gradients = runner_->gradient_memory().device_floats * kFloatBytes;
  use.spilled_gradients = runner_->gradient_memory().pinned_floats * kFloatBytes;
  return use;
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
    // A view executes nothing.
    if (op_def(op.kind).is_view || is_part_of_conversion(graph(), i)) continue;
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
  for (std::size_t program = 0; program < runner_->programs(); ++program) {
    const Graph& graph = runner_->graph(program);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      const std::string algorithm = runner_->vendor_algorithm(i, program);
      const Op& op = graph.ops[i];
      if (!algorithm.empty())
        names.push_back(op.name + " (" + op_name(op.kind) + "): " + algorithm);
    }
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
    Replica fresh = empty_replica(table_, moment_count(), held_ranges_);
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
  const auto check_size = [&](const auto& array, std::int64_t floats) {
    if (array.floats() == floats) return Status();
    return Status(failure(name + " has " + std::to_string(array.floats()) + " floats: allowed is " +
                          std::to_string(floats) + " for model " + model_text(spec_.model)));
  };
  ES_RETURN_IF_ERROR(check_size(replica.params, table_.total_floats()));
  for (const HeldArray& moment : replica.moments) {
    ES_RETURN_IF_ERROR(check_size(moment, table_.trained_floats()));
    if (moment.held() != held_ranges_)
      return failure(name + " has the moments of " + std::to_string(moment.held_floats()) +
                     " floats: allowed are those of the buckets that this engine holds");
  }
  ES_RETURN_IF_ERROR(check_contexts(replica.contexts, replica.version));
  ES_RETURN_IF_ERROR(check_finite(replica));
  replica_ = std::move(replica);
  replica_changed();
  return {};
}

void Engine::replica_changed() {
  frozen_digest_ = gpu::frozen_digest(table_, replica_.params.data());
  evaluates_average_ = false;
  host_changed();
  if (forward_) forward_->params_changed();
  next_.assign(buckets_.size(), false);
  fetched_ = true;
  usable_ = {};
}

// A device must copy what it uses of the replica.
void Engine::host_changed() {
  runner_->params_changed();
  if (Updater* const updater = runner_->updater()) updater->replica_changed();
}

std::span<const std::byte> Engine::frozen_pages() const {
  const AlignedBuffer& params = replica_.params;
  const AlignedBuffer::Pages pages = params.pages_behind(table_.trained_floats());
  return std::as_bytes(std::span(params.data(), static_cast<std::size_t>(params.floats())))
      .subspan(pages.begin, pages.bytes);
}

bool Engine::share_frozen(int fd) {
  // What is evaluated has its own copy of the frozen parameters, which is made again when needed.
  averaged_ = AlignedBuffer();
  use_parameters();
  return replica_.params.map_pages(replica_.params.pages_behind(table_.trained_floats()), fd);
}

Batch Engine::with_program(Batch batch) const {
  if (updates_ != nullptr && updates_->turns.several())
    batch.program = updates_->turns.at(replica_.version).loss;
  return batch;
}

StepInput Engine::input_of(VirtualRank rank, const Batch& batch) const {
  return {
      .stats = replica_.contexts[rank].stats.data(),
      .batch = with_program(batch),
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
  ES_CHECK(rank < replica_.contexts.size() && batch.program < runner_->programs());
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
                                                               .batch = input.batch,
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

}  // namespace es::gpu
