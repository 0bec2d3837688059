#include "actors/worker/state/step_trace.h"

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "actors/worker/job_model/job_model.h"
#include "actors/worker/state/initial_weights.h"
#include "actors/worker/state/version_io.h"
#include "gpu/base/vendor_kernels.h"
#include "gpu/engine/device_choice.h"
#include "gpu/est/reduce_tree.h"
#include "gpu/graph/op_results.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/params/buckets.h"
#include "store/dataset/job_sampler.h"

namespace es::actors::worker {
namespace {

Digest digest_of_floats(const float* data, std::int64_t count) {
  return digest_of(std::span(reinterpret_cast<const std::byte*>(data),
                             static_cast<std::size_t>(count) * sizeof(float)));
}

// Computes the digest of every output in the local step of one EST.
class OpTracer : public gpu::OpObserver {
 public:
  OpTracer(const gpu::Engine& engine, std::uint32_t program, VirtualRank rank,
           std::vector<TraceLine>& lines)
      : engine_(engine),
        graph_(engine.graph(program)),
        only_evaluated_(gpu::evaluation_tensors(graph_)),
        rank_(rank),
        lines_(lines) {}

  void begin_op(const gpu::Op&) override {}
  void end_op(const gpu::Op& op) override {
    const std::string from = op.name + " (" + gpu::op_name(op.kind) + ")";
    for (const gpu::TensorId t : op.out)
      if (!only_evaluated_[static_cast<std::size_t>(t)])
        lines_.push_back({output_digest(t),
                          prefix() + "output of " + from + " " + gpu::shape_text(graph_.shape(t))});
    if (gpu::op_def(op.kind).writes_weight_grad) gradient_of(op.weight, from);
    if (gpu::op_def(op.kind).writes_bias_grad) gradient_of(op.bias, from);
  }

 private:
  std::string prefix() const { return "EST " + std::to_string(rank_) + ": "; }
  Digest output_digest(gpu::TensorId t) const {
    const std::span<const float> values = engine_.values(t);
    const bool bytes = graph_.tensors[t].type == gpu::ElementType::kU8;
    const auto* data = reinterpret_cast<const std::byte*>(values.data());
    return digest_of(std::span(data, values.size() * (bytes ? 1 : sizeof(float))));
  }
  void gradient_of(gpu::ParamId id, const std::string& from) {
    const gpu::ParamInfo& param = engine_.table()[id];
    lines_.push_back({digest_of_floats(engine_.gradient(id).data(), param.count),
                      prefix() + "gradient of " + param.name + ", by " + from});
  }

  const gpu::Engine& engine_;
  const gpu::Graph& graph_;
  std::vector<bool> only_evaluated_;  // [tensor]: a step does not write it
  VirtualRank rank_;
  std::vector<TraceLine>& lines_;
};

class Replay {
 public:
  static Result<std::unique_ptr<Replay>> create(const TraceRequest& request);
  // Runs one global step. If `trace` is not null, every result is added to it.
  Status step(StepTrace* trace);
  Version version() const { return engine_->version(); }

 private:
  explicit Replay(const JobSpec& spec) : spec_(spec) {}
  Status run_rank(VirtualRank rank, StepTrace* trace);
  void sum_gradients();
  void trace_params(const char* what, const float* flat, StepTrace& trace) const;

  JobSpec spec_;
  std::shared_ptr<const store::SampleSource> samples_;
  std::optional<store::EpochSampler> sampler_;
  std::unique_ptr<gpu::Engine> engine_;
  std::vector<float> batch_;
  std::vector<gpu::AlignedBuffer> gradients_;  // by rank
  std::vector<gpu::EstContext> next_;
  gpu::AlignedBuffer sum_, workspace_;
};

Result<std::unique_ptr<Replay>> Replay::create(const TraceRequest& request) {
  std::unique_ptr<Replay> replay(new Replay(request.spec));
  const JobSpec& spec = replay->spec_;
  if (spec.schedule.kind == "plateau")
    return usage_error(
        "schedule.kind = \"plateau\": allowed is another one, because the learning rate "
        "of a step depends on the evaluations before it, which are not repeated here");
  const auto model = JobModel::open(spec.model);
  if (!model) return model.error();
  auto samples = model->open_samples(spec);
  if (!samples) return samples.error();
  replay->samples_ = *std::move(samples);
  auto sampler = store::job_sampler(spec, replay->samples_->train_count(), model->turns(),
                                    model->inputs().get());
  if (!sampler) return sampler.error();
  replay->sampler_ = *sampler;
  gpu::EngineOptions options{.total_steps = spec.steps,
                             .bucket_bytes = gpu::kBucketBytes,
                             .threads = spec.resources.threads,
                             .vendor = gpu::allows_vendor(spec.level)};
  ES_RETURN_IF_ERROR(gpu::choose_device(request.device, 0, options));
  auto graph = model->graph(spec, replay->samples_->layout());
  if (!graph) return graph.error();
  auto engine = gpu::Engine::create(spec, *std::move(graph), options);
  if (!engine) return engine.error();
  replay->engine_ = *std::move(engine);
  if (request.checkpoint.empty()) {
    ES_RETURN_IF_ERROR(replay->engine_->init_replica());
    ES_RETURN_IF_ERROR(load_initial_weights(*replay->engine_, spec));
  } else {
    ES_RETURN_IF_ERROR(load_checkpoint(*replay->engine_, spec, request.checkpoint));
  }
  const std::int64_t floats = replay->engine_->table().trained_floats();
  replay->batch_.resize(spec.batch_size * static_cast<std::size_t>(replay->samples_->words_max()));
  for (VirtualRank rank = 0; rank < spec.max_p; ++rank) replay->gradients_.emplace_back(floats);
  replay->next_.resize(spec.max_p);
  replay->sum_ = gpu::AlignedBuffer(floats);
  replay->workspace_ = gpu::AlignedBuffer(gpu::reduce_workspace_floats(spec.max_p));
  return replay;
}

Status Replay::step(StepTrace* trace) {
  if (trace != nullptr) trace->before = engine_->params_digest();
  for (VirtualRank rank = 0; rank < spec_.max_p; ++rank) ES_RETURN_IF_ERROR(run_rank(rank, trace));
  sum_gradients();
  if (trace != nullptr) trace_params("sum over all ESTs of the gradient of ", sum_.data(), *trace);
  std::vector<const float*> reduced;
  for (const gpu::Bucket& bucket : engine_->buckets())
    reduced.push_back(sum_.data() + bucket.begin);
  ES_RETURN_IF_ERROR(engine_->apply_update(reduced, next_));
  if (trace == nullptr) return {};
  // The parameters may be in the memory of a GPU.
  ES_RETURN_IF_ERROR(engine_->fetch_replica());
  trace_params("update of ", engine_->replica().params.data(), *trace);
  return {};
}

Status Replay::run_rank(VirtualRank rank, StepTrace* trace) {
  const Version step = version();
  // The next context of the EST contains the position of the next step, as in a worker.
  const store::DataCursor next = sampler_->cursor(step + 1);
  const store::DataCursor at = sampler_->cursor(step);
  ES_RETURN_IF_ERROR(store::fill_batch(*samples_, *sampler_, at, rank, batch_));
  const gpu::Batch batch{.words = batch_.data(), .program = sampler_->bucket(at, rank)};
  std::vector<TraceLine> unused;
  OpTracer tracer(*engine_, batch.program, rank, trace != nullptr ? trace->lines : unused);
  engine_->set_observer(trace != nullptr ? &tracer : nullptr);
  const auto loss = engine_->local_step(rank, batch, {next.epoch, next.step},
                                        gradients_[rank].data(), next_[rank], [](std::uint32_t) {});
  engine_->set_observer(nullptr);
  return loss ? Status() : loss.error();
}

void Replay::sum_gradients() {
  gpu::HostAdder host(engine_->kernels());
  for (const gpu::Bucket& bucket : engine_->buckets()) {
    std::vector<gpu::GradientPart> parts;
    // Every rank is a part of its own here, whereas a worker sends sums over several ranks. At D1
    // and D2 both give the same bits, because the tree fixes the additions for every division of
    // the ranks.
    for (VirtualRank rank = 0; rank < spec_.max_p; ++rank)
      parts.push_back({{rank, rank + 1}, gradients_[rank].data() + bucket.begin});
    gpu::reduce_parts(engine_->gradient_order(), spec_.max_p, {0, spec_.max_p}, parts,
                      bucket.floats(), sum_.data() + bucket.begin, workspace_.data(), host);
  }
}

void Replay::trace_params(const char* what, const float* flat, StepTrace& trace) const {
  for (const gpu::ParamInfo& param : engine_->table().trained())
    trace.lines.push_back({digest_of_floats(flat + param.offset, param.count), what + param.name});
}

}  // namespace

std::string encode(const StepTrace& trace) {
  std::string text = trace.before.hex() + " parameters before the step\n";
  for (const TraceLine& line : trace.lines) text += line.digest.hex() + " " + line.what + "\n";
  return text;
}

Result<StepTrace> decode_trace(std::string_view text) {
  StepTrace trace;
  for (bool first = true; !text.empty(); first = false) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    // A digest has 32 hexadecimal digits. A space and at least one character follow.
    const auto digest = Digest::parse(line.substr(0, 32));
    if (end == std::string_view::npos || !digest || line.size() < 34 || line[32] != ' ')
      return failure("a trace has the line \"" + std::string(line) + "\": allowed is DIGEST WHAT");
    if (first) {
      trace.before = *digest;
    } else {
      trace.lines.push_back({*digest, std::string(line.substr(33))});
    }
    text.remove_prefix(end + 1);
  }
  return trace;
}

Result<StepTrace> trace_step(const TraceRequest& request) {
  auto replay = Replay::create(request);
  if (!replay) return replay.error();
  if ((*replay)->version() > request.step)
    return usage_error(request.checkpoint.string() + ": is of step " +
                       std::to_string((*replay)->version()) + ", allowed is at most " +
                       std::to_string(request.step));
  while ((*replay)->version() < request.step) ES_RETURN_IF_ERROR((*replay)->step(nullptr));
  StepTrace trace;
  ES_RETURN_IF_ERROR((*replay)->step(&trace));
  return trace;
}

}  // namespace es::actors::worker
