#include "actors/head/admission/admission.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "actors/base/job_file/job_file.h"
#include "actors/base/protocol/core/decisions.h"
#include "actors/head/admission/model_key.h"
#include "actors/worker/core/bulk_pull.h"
#include "actors/worker/job_model/job_model.h"
#include "actors/worker/state/checkpoint_sections.h"
#include "actors/worker/state/initial_weights.h"
#include "actors/worker/state/kernel_record.h"
#include "gpu/base/vendor_kernels.h"
#include "gpu/engine/captured_updates.h"
#include "gpu/optim/parameter_groups.h"
#include "gpu/params/buckets.h"
#include "proto/base/job_fields.h"
#include "proto/frame.h"
#include "store/checkpoint/checkpoint.h"
#include "store/dataset/job_sampler.h"
#include "store/metrics/metric.h"
#include "store/path_roots.h"

namespace es::actors {
namespace {

constexpr const char* kWhere = "job";

// The global steps of the epochs of the job.
Result<std::uint64_t> epoch_steps(const JobSpec& spec, const JobModel& model,
                                  std::uint64_t samples) {
  const auto sampler = store::job_sampler(spec, samples, model.turns(), model.inputs().get());
  if (!sampler) return sampler.error();
  return sampler->steps_of_epochs(spec.epochs);
}

// esctl measures what D2 costs and submits a level. A job that still says auto gets the stronger
// promise.
DeterminismLevel resolve_level(const JobSpec& spec) {
  return spec.level == DeterminismLevel::kAuto ? DeterminismLevel::kD2 : spec.level;
}

std::uint64_t steps_of(const std::vector<Stage>& stages) {
  return std::accumulate(stages.begin(), stages.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Stage& s) { return sum + s.steps; });
}

// Fixes the total number of steps, which includes those of the checkpoint.
Status resolve_steps(JobSpec& spec, Version start, std::uint64_t epoch_steps) {
  const std::uint64_t staged = steps_of(spec.stages);
  if (spec.steps == 0 && staged != 0) spec.steps = start + staged;
  if (spec.steps == 0) spec.steps = epoch_steps;
  if (staged != 0 && start + staged != spec.steps)
    return usage_error(std::string(kWhere) + ": steps = " + std::to_string(spec.steps) +
                       ": allowed is the sum of the stages" +
                       (start != 0 ? " after version " + std::to_string(start) : "") + ", " +
                       std::to_string(start + staged));
  if (spec.steps <= start)
    return usage_error(std::string(kWhere) + ": steps = " + std::to_string(spec.steps) +
                       ": allowed is more than the " + std::to_string(start) +
                       " steps of the checkpoint");
  spec.epochs = 0;
  return {};
}

// A run from a checkpoint has the bits of an uninterrupted run only if everything that decides them
// is the same.
Status check_same_job(const JobSpec& spec, const JobSpec& saved, const std::string& directory) {
  const std::string key(first_other_bits(spec, saved));
  if (key.empty()) return {};
  return usage_error(directory + ": the checkpoint belongs to a job with another " + key +
                     "; allowed is the same " + key);
}

// Device types of the first placement; empty: the scheduler may choose any.
std::vector<DeviceType> first_types(const JobSpec& spec) {
  if (spec.stages.empty()) return spec.resources.device_types;
  std::vector<DeviceType> types;
  for (const DeviceCount& count : spec.stages.front().devices.counts) types.push_back(count.type);
  return types;
}

struct Start {
  Version version = 0;
  VersionDigests digests;
  protocol::Decisions decisions;
  std::optional<DeviceType> only_type;  // its kernels computed the checkpoint; none: any type may
};

// Below D2 a checkpoint can be continued on its device type only. This holds for canonical kernels
// too, because a library may compute on another type.
std::optional<DeviceType> only_type(const JobSpec& spec, const std::optional<KernelRecord>& saved) {
  const bool depends =
      saved && gpu::allows_vendor(saved->level) && gpu::allows_vendor(resolve_level(spec));
  if (!depends || !spec.stages.empty()) return std::nullopt;
  return saved->device_type;
}

// What the evaluations before the checkpoint have decided. The checkpoint of a job that decides
// nothing does not say it, and then the first evaluation is the first one that counts.
Result<protocol::Decisions> read_decisions(const store::CheckpointReader& reader,
                                           const std::string& directory) {
  if (reader.find(kDecisionsSection) == nullptr) return protocol::Decisions();
  const auto bytes = reader.read(kDecisionsSection);
  if (!bytes) return bytes.error();
  auto decisions =
      protocol::decode_decisions({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!decisions) return usage_error(directory + ": " + decisions.error().message);
  return decisions;
}

Result<Start> look_at_checkpoint(const JobSpec& spec, const std::string& directory) {
  const auto reader = store::CheckpointReader::open(directory);
  if (!reader) return reader.error();
  // The whole checkpoint is read here, so that damage is found before a device is held.
  ES_RETURN_IF_ERROR(reader->verify());
  // The parser's error is not passed on: it would quote the file, which may not belong to the
  // client.
  const auto saved = parse_job(reader->job_toml(), directory);
  if (!saved)
    return usage_error(directory +
                       ": this version does not accept the job file in it; allowed is a checkpoint "
                       "with a valid job file");
  ES_RETURN_IF_ERROR(check_same_job(spec, *saved, directory));
  const auto kernels = read_kernel_record(*reader, directory);
  if (!kernels) return kernels.error();
  ES_RETURN_IF_ERROR(
      check_device_types(*kernels, resolve_level(spec), first_types(spec), directory));
  const auto decisions = read_decisions(*reader, directory);
  if (!decisions) return decisions.error();
  const store::CheckpointHead& head = reader->head();
  return Start{
      head.version, {head.params_digest, head.state_digest}, *decisions, only_type(spec, *kernels)};
}

// The graph of the job's model. It is built when it is first needed, so that errors of the fields
// before it are reported first.
class ModelGraph {
 public:
  // The arguments must outlive this. A change of the weights or of other fields than the
  // model and the batch size does not change the graph.
  ModelGraph(const JobModel& model, const JobSpec& spec, const SampleLayout& layout)
      : model_(model), spec_(spec), layout_(layout) {}
  // Error: the model does not fit the samples.
  Result<const gpu::Graph*> get() {
    if (!graph_) {
      auto graph = model_.graph(spec_, layout_);
      if (!graph) return graph.error();
      graph_ = *std::move(graph);
    }
    return &*graph_;
  }

 private:
  const JobModel& model_;
  const JobSpec& spec_;
  const SampleLayout& layout_;
  std::optional<gpu::Graph> graph_;
};

// What the optimizer of the model file updates, and how many steps it can make.
Result<gpu::CapturedUpdates> captured(const JobSpec& spec, const gpu::Graph& graph) {
  auto updates = gpu::captured_updates(graph.table, graph.updates.get(), spec.optimizer,
                                       spec.schedule, spec.steps);
  if (!updates) return usage_error(std::string(kWhere) + ": " + updates.error().message);
  return updates;
}

Result<std::vector<gpu::ParamState>> optimizer_states(const JobSpec& spec,
                                                      const gpu::Graph& graph) {
  const auto updates = captured(spec, graph);
  if (!updates) return updates.error();
  if (graph.updates == nullptr) return std::vector<gpu::ParamState>();
  return gpu::param_states(graph.table, *graph.updates, *updates);
}

// From now on the digest of the initial weights belongs to the job, and workers compare the file
// with it. If the job file contains a digest already, only the workers compare: the job may be
// beyond version 0, and the file may be gone.
Status resolve_weights(JobSpec& spec, ModelGraph& graph) {
  if (spec.model.weights.empty() || !spec.model.weights_digest.empty()) return {};
  const auto built = graph.get();
  if (!built) return built.error();
  const auto states = optimizer_states(spec, **built);
  if (!states) return states.error();
  const auto digest = check_weights(spec.model.weights, (*built)->table, spec.lora, *states);
  if (!digest) return digest.error();
  spec.model.weights_digest = digest->hex();
  return {};
}

// The floats of each gradient bucket.
Result<std::vector<std::uint64_t>> bucket_floats(ModelGraph& graph) {
  const auto built = graph.get();
  if (!built) return built.error();
  std::vector<std::uint64_t> floats;
  for (const gpu::Bucket& bucket :
       gpu::cut_buckets((*built)->table, gpu::kBucketBytes / std::int64_t{sizeof(float)}))
    floats.push_back(static_cast<std::uint64_t>(bucket.floats()));
  return floats;
}

// What the workers of the job need, as far as the model tells.
Result<scheduler::WorkerMemory> planned_memory(const JobSpec& spec, ModelGraph& graph) {
  const auto built = graph.get();
  if (!built) return built.error();
  gpu::EngineOptions options{.total_steps = spec.steps, .threads = spec.resources.threads};
  const auto on_cpu = gpu::Engine::planned_memory(spec, **built, options);
  if (!on_cpu) return on_cpu.error();
  options.device = gpu::DeviceKind::kGpu;
  const auto on_gpu = gpu::Engine::planned_memory(spec, **built, options);
  if (!on_gpu) return on_gpu.error();
  return worker_memory(spec, *on_cpu, *on_gpu);
}

// Weights that only evaluations use are a state of the optimizer, which no worker holds as a whole.
Result<bool> may_divide(const JobSpec& spec, ModelGraph& graph) {
  if (spec.optimizer.ema != 0) return false;
  const auto built = graph.get();
  if (!built) return built.error();
  const auto states = optimizer_states(spec, **built);
  if (!states) return states.error();
  const bool evaluates_others = std::ranges::any_of(
      *states, [](const gpu::ParamState& state) { return state.name == kEvaluatedState; });
  return !evaluates_others;
}

Status check_shards(const JobSpec& spec, bool may_divide) {
  if (may_divide || spec.shard.state != "on") return {};
  return usage_error(
      std::string(kWhere) +
      ": shard.state = \"on\": allowed is \"auto\" or \"off\" with an optimizer whose "
      "evaluations use other weights");
}

// One message has the states of all ESTs (RankResult::context), beside data of up to
// worker::kInlineBytesMax.
Status check_states(const JobSpec& spec, ModelGraph& graph) {
  constexpr std::uint64_t kMost = std::uint64_t{48} << 20;
  static_assert(kMost + worker::kInlineBytesMax < kBodyBytesMax);
  const auto built = graph.get();
  if (!built) return built.error();
  const gpu::ParamTable& table = (*built)->table;
  const auto each = static_cast<std::uint64_t>(table.stat_floats()) * sizeof(float);
  if (std::ranges::none_of(table.stats(), &gpu::StatInfo::is_state) || each * spec.max_p <= kMost)
    return {};
  return usage_error(std::string(kWhere) + ": max_p = " + std::to_string(spec.max_p) +
                     ": allowed is at most " + std::to_string(kMost / each) +
                     ", because the states of an EST have " + std::to_string(each) +
                     " bytes, and those of all ESTs at most " + std::to_string(kMost));
}

// A name in a group that no parameter has would be a setting without effect. An optimizer that the
// model file brings must update all parameters in all steps.
Status check_optimizer(const JobSpec& spec, ModelGraph& graph) {
  const auto built = graph.get();
  if (!built) return built.error();
  const gpu::ParamTable& table = (*built)->table;
  auto runs = gpu::group_runs(table, spec.optimizer.groups);
  if (runs) runs = gpu::clipped_runs(*std::move(runs), table, spec.optimizer.clip_groups);
  if (!runs) return usage_error(std::string(kWhere) + ": " + runs.error().message);
  const auto updates = captured(spec, **built);
  return updates ? Status() : updates.error();
}

// An evaluation pads its last mini-batch with repeated samples, which a loss of samples leaves out
// and a loss of the mini-batch cannot.
Status check_evaluation(const JobSpec& spec, const JobModel& model, ModelGraph& graph,
                        const store::DataFacts& data) {
  const auto built = graph.get();
  if (!built) return built.error();
  const Status fits = check_eval_count(**built, spec, data.eval_count, model.inputs().get());
  return fits.ok() ? fits : usage_error(std::string(kWhere) + ": data: " + fits.error().message);
}

// Checked before any file is opened, so that a client cannot find out which files exist outside of
// the roots.
Status check_named_paths(const JobSpec& spec, const std::string& from_checkpoint) {
  using store::RootKind;
  const auto check = [](RootKind kind, const char* field, const std::string& path) {
    return path.empty() ? Status() : store::check_named(kind, field, path);
  };
  ES_RETURN_IF_ERROR(check(RootKind::kData, "data.path", spec.data.path));
  ES_RETURN_IF_ERROR(check(RootKind::kData, "data.vocabulary_file", spec.data.vocabulary_file));
  ES_RETURN_IF_ERROR(check(RootKind::kData, "data.weights", spec.data.weights));
  ES_RETURN_IF_ERROR(check(RootKind::kData, "data.groups", spec.data.groups));
  ES_RETURN_IF_ERROR(check(RootKind::kData, "data.length_buckets", spec.data.length_buckets));
  if (spec.data.kind == "python")
    ES_RETURN_IF_ERROR(store::check_program("data.python", spec.data.python));
  ES_RETURN_IF_ERROR(check(RootKind::kData, "model.file", spec.model.file));
  ES_RETURN_IF_ERROR(check(RootKind::kData, "model.weights", spec.model.weights));
  ES_RETURN_IF_ERROR(
      check(RootKind::kCheckpoints, "checkpoint.directory", spec.checkpoint.directory));
  ES_RETURN_IF_ERROR(check(RootKind::kCheckpoints, "log.tensorboard", spec.log.tensorboard));
  if (!spec.log.mlflow.empty())
    ES_RETURN_IF_ERROR(store::check_service("log.mlflow", spec.log.mlflow));
  return check(RootKind::kCheckpoints, "--from", from_checkpoint);
}

// Fills in what only the data and the checkpoint tell: steps and level. Then the rules that depend
// on them are checked again.
Status resolve(JobSpec& spec, const JobModel& model, Version start, const store::DataFacts& data) {
  const auto of_epochs = epoch_steps(spec, model, data.train_count);
  if (!of_epochs) return of_epochs.error();
  ES_RETURN_IF_ERROR(resolve_steps(spec, start, *of_epochs));
  spec.level = resolve_level(spec);
  return validate(spec, kWhere);
}

}  // namespace

Result<AdmittedJob> admit(const std::string& spec_toml, const std::string& from_checkpoint) {
  auto spec = parse_job(spec_toml, kWhere);
  if (!spec) return spec.error();
  ES_RETURN_IF_ERROR(check_named_paths(*spec, from_checkpoint));
  const auto model = JobModel::open(spec->model);
  if (!model) return model.error();
  const auto data = model->data_facts(*spec);
  if (!data) return data.error();
  AdmittedJob job;
  job.config.spec = *std::move(spec);
  JobSpec& resolved = job.config.spec;
  // From now on the digests of the model file and of a Python dataset belong to the job, and
  // workers compare the files with them.
  resolved.model.file_digest = model->file_digest();
  if (!data->path_digest.empty()) resolved.data.path_digest = data->path_digest;
  ES_RETURN_IF_ERROR(model->check_initial_values(resolved.model));
  ES_RETURN_IF_ERROR(store::check_metrics(resolved, model->inputs().get()));
  ES_RETURN_IF_ERROR(store::check_decisions(resolved, model->inputs().get(), data->eval_count));
  ModelGraph graph(*model, resolved, data->layout);
  ES_RETURN_IF_ERROR(resolve_weights(resolved, graph));
  ES_RETURN_IF_ERROR(check_states(resolved, graph));
  if (!from_checkpoint.empty()) {
    const auto start = look_at_checkpoint(resolved, from_checkpoint);
    if (!start) return start.error();
    job.config.start = protocol::FromCheckpoint{from_checkpoint};
    job.config.start_version = start->version;
    job.config.start_digests = start->digests;
    job.config.start_decisions = start->decisions;
    // The kernels of another type would give other bits, so the policy must not choose one.
    if (start->only_type) resolved.resources.device_types = {*start->only_type};
  }
  ES_RETURN_IF_ERROR(resolve(resolved, *model, job.config.start_version, *data));
  ES_RETURN_IF_ERROR(check_optimizer(resolved, graph));
  ES_RETURN_IF_ERROR(check_evaluation(resolved, *model, graph, *data));
  const auto divides = may_divide(resolved, graph);
  if (!divides) return divides.error();
  job.may_divide = *divides;
  ES_RETURN_IF_ERROR(check_shards(resolved, *divides));
  auto buckets = bucket_floats(graph);
  if (!buckets) return buckets.error();
  job.bucket_floats = *std::move(buckets);
  auto memory = planned_memory(resolved, graph);
  if (!memory) return memory.error();
  job.memory = *memory;
  job.config.last_version = resolved.steps;
  job.config.bucket_count = static_cast<std::uint32_t>(job.bucket_floats.size());
  job.model_key = model_key(resolved, data->layout);
  job.set_spec(JobSpec(resolved));
  return job;
}

scheduler::WorkerMemory worker_memory(const JobSpec& spec, const gpu::MemoryUse& on_cpu,
                                      const gpu::MemoryUse& on_gpu) {
  const auto arrays = [](const gpu::MemoryUse& use, std::uint32_t ests) {
    const auto bytes = [](std::int64_t count) { return static_cast<std::uint64_t>(count); };
    return scheduler::WorkerArrays{
        .always = bytes(use.params + use.constants + use.arena + use.workspace) +
                  bytes(use.context) * ests,
        .moments = bytes(use.moments),
        .gradient = bytes(use.gradient_slot),
        .gradient_leaving = bytes(use.gradient_leaving)};
  };
  scheduler::WorkerMemory memory;
  memory.on_cpu = arrays(on_cpu, spec.max_p);
  memory.on_gpu = arrays(on_gpu, 1);  // the statistics of ESTs that wait are in host memory
  memory.max_p = spec.max_p;
  // At level D0 a worker adds the gradients of its ESTs in one chain (gpu/est/rank_tree.h).
  if (spec.level == DeterminismLevel::kD0) memory.most_gradients = 2;
  return memory;
}

void AdmittedJob::set_spec(JobSpec spec) {
  config.spec = std::move(spec);
  config.shards.clear();
  if (config.spec.shard.state == "on") config.shards = bucket_floats;
  memory.divided = !config.shards.empty();
  spec_toml = to_toml(config.spec);
}

}  // namespace es::actors
