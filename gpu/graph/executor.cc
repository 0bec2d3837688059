#include "gpu/graph/executor.h"

#include <algorithm>
#include <cmath>

#include "gpu/base/float_flags.h"
#include "gpu/graph/element_code.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/machine_code/tile_code.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

std::vector<const float*> constant_words(const Graph& graph) {
  std::vector<const float*> words;
  for (const Constant& c : graph.constants) words.push_back(c.words.data());
  return words;
}

// Machine code is made here, so that no step has to wait for it or allocates memory.
void make_machine_code(const Graph& graph, CpuClass cpu_class) {
  for (const Op& op : graph.ops) {
    if (op.program == nullptr) continue;
    const std::optional<ElementCode> code = with_few_registers(op.program->code);
    if (code) tile_code(*code, cpu_class, graph.shape(op.out[0]).count());
  }
}

std::vector<CpuProgram> only(Program program, OnednnOps onednn) {
  std::vector<CpuProgram> programs;
  programs.push_back({std::move(program), std::move(onednn)});
  return programs;
}

}  // namespace

std::int64_t max_workspace(const Program& program, const KernelTable& kernels, int threads) {
  std::size_t floats = 0;
  for (const Op& op : program.graph.ops)
    floats = std::max(floats, op_workspace_floats(kernels, {program.graph, op}, threads));
  return static_cast<std::int64_t>(floats);
}

Executor::Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets,
                   Parallel& parallel, OnednnOps onednn)
    : Executor(only(std::move(program), std::move(onednn)), kernels, buckets, parallel) {}

Executor::Executor(std::vector<CpuProgram> programs, const KernelTable& kernels,
                   const std::vector<Bucket>& buckets, Parallel& parallel)
    : kernels_(kernels), parallel_(parallel), buckets_(buckets) {
  std::int64_t arena = 0, workspace = 0;
  for (CpuProgram& program : programs) {
    Loaded& now = programs_.emplace_back();
    now.program = std::move(program.program);
    now.onednn = std::move(program.onednn);
    now.plan = plan_memory(now.program, GradientsInForward::kYes);
    now.bucket_ready_op = bucket_ready_ops(now.program, buckets);
    now.results = op_results(now.graph());
    arena = std::max(arena, now.plan.arena_floats);
    workspace = std::max(workspace, max_workspace(now.program, kernels, parallel.threads()));
  }
  // No program leaves anything for another one, so all use the memory of the one that needs most.
  arena_ = AlignedBuffer(arena, "activations and their gradients");
  workspace_ = AlignedBuffer(workspace, "the kernels' workspace");
  for (Loaded& now : programs_) {
    const std::vector<const float*> constants = constant_words(now.graph());
    now.tensors.emplace(now.graph(), now.plan, now.plan.step, arena_.data(), constants);
    now.evaluation.emplace(now.graph(), now.plan, now.plan.evaluation, arena_.data(), constants);
    make_machine_code(now.graph(), kernels_.cpu_class);
    if (now.onednn.count() != 0) try_onednn_kernels(now);
  }
}

std::string Executor::vendor_library() const {
  for (const Loaded& loaded : programs_)
    if (!loaded.onednn.library().empty()) return loaded.onednn.library();
  return {};
}

std::vector<std::string> Executor::vendor_refusals() const {
  std::vector<std::string> refusals;
  for (const Loaded& loaded : programs_)
    refusals.insert(refusals.end(), loaded.onednn.refusals().begin(),
                    loaded.onednn.refusals().end());
  return refusals;
}

// Runs each kernel of oneDNN once. Without this trial, a kernel that refuses its work would end
// this worker in its first step, and then the next worker in its first step.
void Executor::try_onednn_kernels(Loaded& of) {
  // The contents do not matter, because only the status of each kernel is looked at. Parameters and
  // samples do not exist yet when the executor is constructed.
  const auto some = [](std::int64_t floats) {
    return AlignedBuffer::uninitialised(floats, "a trial of the vendor's kernels");
  };
  const Graph& graph = of.graph();
  const AlignedBuffer batch = some(graph.batch * graph.layout.words());
  const AlignedBuffer params = some(graph.table.total_floats());
  AlignedBuffer grads = some(graph.table.total_floats());
  of.tensors->bind_inputs(batch.data());
  of.tensors->bind_params(params.data());
  of.tensors->bind_gradients(grads.data());
  of.onednn.drop_refused(graph, {.tensors = of.tensors->data(),
                                 .params = params.data(),
                                 .grads = grads.data(),
                                 .workspace = workspace_.data(),
                                 .parallel = &parallel_});
}

Status Executor::run_one(const Loaded& now, std::size_t index, RunMode mode,
                         const RunBuffers& buffers) {
  const Op& op = now.graph().ops[index];
  if (observer_ != nullptr) observer_->begin_op(op);
  // The flags are sticky, so after the operator they say whether it raised one. Without this line
  // the flag of an earlier operator would make the executor read the results of all later ones.
  clear_non_finite_flags();
  const Result<bool> by_onednn = now.onednn.run(index, now.graph(), buffers);
  if (!by_onednn) return failure(op.name + ": " + by_onednn.error().message);
  if (!*by_onednn) run_op(kernels_, {now.graph(), op, buffers, mode});
  if (observer_ != nullptr) observer_->end_op(op);
  return {};
}

RunBuffers Executor::buffers_of(const Loaded& now, const LocalStep& step) {
  // A step that has to be repeated must find the statistics of the current version unchanged.
  ES_CHECK(step.stats != step.next_stats || now.graph().table.stat_floats() == 0);
  return {.tensors = now.tensors->data(),
          .params = step.params,
          .grads = grads_,
          .stats = step.stats,
          .next_stats = step.next_stats,
          .key = step.key,
          .workspace = workspace_.data(),
          .parallel = &parallel_};
}

Fault Executor::fault_of(const Loaded& now, std::size_t index, const RunBuffers& buffers) const {
  for (const OpResult& result : now.results[index])
    if (result.any_non_finite(buffers, kernels_)) return {&now.graph().ops[index], result.param};
  return {};
}

Result<Fault> Executor::run_forward(const Loaded& now, const LocalStep& step, Check check) {
  const RunBuffers buffers = buffers_of(now, step);
  for (std::size_t i = 0; i < now.program.first_backward; ++i) {
    ES_RETURN_IF_ERROR(run_one(now, i, RunMode::kTrain, buffers));
    // Most operators raise no flag, so their results are not read a second time.
    if (check == Check::kFlagged && non_finite_flags() == 0) continue;
    const Fault fault = fault_of(now, i, buffers);
    if (fault.op != nullptr) return fault;
  }
  return Fault{};
}

Result<LocalStepResult> Executor::run_local_step(const LocalStep& step,
                                                 const OnBucketReady& on_bucket_ready) {
  Loaded& now = programs_[step.batch.program];
  last_program_ = &now;
  last_run_ = &*now.tensors;
  now.tensors->bind_inputs(step.batch.words);
  now.tensors->bind_params(step.params);
  grads_ = step.gradient.host(step.gradient.path.slots.front());
  now.tensors->bind_gradients(grads_);
  Result<Fault> forward = run_forward(now, step, Check::kFlagged);
  if (!forward) return forward.error();
  const float loss = *(*now.tensors)[now.graph().mean_loss];
  // Without a fault the loss is finite, unless a value that is not finite entered the step. Such a
  // value passes through operations without raising a flag, so the forward pass runs again with all
  // outputs checked.
  if (forward->op == nullptr && !std::isfinite(loss)) forward = run_forward(now, step, Check::kAll);
  if (!forward) return forward.error();
  Fault fault = *forward;
  if (fault.op != nullptr) return LocalStepResult{loss, fault};
  const RunBuffers buffers = buffers_of(now, step);
  // Buckets are reported in ascending order, each after the last operator that writes a gradient of
  // it, so that its sum over the workers can begin while earlier layers are still being
  // differentiated.
  std::uint32_t bucket = 0;
  for (std::size_t i = now.program.first_backward; i < now.graph().ops.size(); ++i) {
    ES_RETURN_IF_ERROR(run_one(now, i, RunMode::kTrain, buffers));
    if (non_finite_flags() != 0) fault = fault_of(now, i, buffers);
    if (fault.op != nullptr) return LocalStepResult{loss, fault};
    for (; bucket < buckets_.size() && now.bucket_ready_op[bucket] == i; ++bucket) {
      complete_bucket(bucket, step.gradient);
      on_bucket_ready(bucket);
    }
  }
  // clear_untouched() in differentiate.cc has given every trained parameter an operator that writes
  // its gradient, so every bucket was completed.
  ES_CHECK(bucket == buckets_.size());
  return LocalStepResult{loss, {}};
}

void Executor::complete_bucket(std::uint32_t bucket, const GradientTarget& target) {
  if (target.inspect) target.inspect(bucket, grads_ + buckets_[bucket].begin);
  merge_on_host(target, buckets_[bucket], kernels_);
}

Status Executor::run_eval(const float* params, const StepInput& input, float* gradient) {
  const std::int64_t floats = graph().table.trained_floats();
  // An evaluation rarely needs all of it, and what it does not touch occupies no memory.
  if (gradient == nullptr && in_place_of_gradient_.floats() != floats)
    in_place_of_gradient_ = AlignedBuffer::uninitialised(floats, "activations of an evaluation");
  Loaded& now = programs_[input.batch.program];
  last_program_ = &now;
  last_run_ = &*now.evaluation;
  now.evaluation->bind_gradients(gradient == nullptr ? in_place_of_gradient_.data() : gradient);
  now.evaluation->bind_inputs(input.batch.words);
  now.evaluation->bind_params(params);
  const RunBuffers buffers{.tensors = now.evaluation->data(),
                           .params = params,
                           .stats = input.stats,
                           .key = input.key,
                           .workspace = workspace_.data(),
                           .parallel = &parallel_};
  for (std::size_t i = 0; i < now.program.first_backward; ++i)
    ES_RETURN_IF_ERROR(run_one(now, i, RunMode::kEvaluate, buffers));
  return {};
}

std::span<const float> Executor::values(TensorId t) const {
  const Graph& graph = last_program_->graph();
  const auto count = static_cast<std::size_t>(graph.shape(t).count());
  const float* const at = (*last_run_)[t];
  if (!graph.tensors[static_cast<std::size_t>(t)].bf16) return {at, count};
  widened_.resize(count);
  kernels_.widen(std::ssize(widened_), reinterpret_cast<const Bf16*>(at), widened_.data());
  return widened_;
}

std::span<const float> Executor::gradient(ParamId param) const {
  const ParamInfo& info = graph().table[param];
  return {grads_ + info.offset, static_cast<std::size_t>(info.count)};
}

}  // namespace es::gpu
