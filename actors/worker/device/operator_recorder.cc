#include "actors/worker/device/operator_recorder.h"

#include <functional>

#include "gpu/base/peak.h"
#include "gpu/cuda/cuda_inventory.h"
#include "gpu/engine/device_choice.h"
#include "gpu/graph/op_flops.h"
#include "gpu/graph/ops/operator.h"
#include "proto/base/check.h"

namespace es::actors::worker {

Instant OperatorRecorder::begin_slice(Version step) {
  step_ = step;
  in_slice_ = true;
  runs_.clear();
  const Instant now = tracing::trace_now();
  slice_ = {now, tracing::trace_ticks()};
  return now;
}

Instant OperatorRecorder::end_slice() {
  const std::uint64_t ticks = tracing::trace_ticks();
  const tracing::ClockReading end{tracing::trace_now(), ticks};
  in_slice_ = false;
  const tracing::TickTimes times(slice_, end);
  spans_.clear();
  for (const Run& run : runs_) {
    const Instant begin = times.at(run.begin);
    spans_.push_back({.kind = tracing::SpanKind::kOperator,
                      .lane = tracing::lane::kDevice,
                      .number = run.number,
                      .step = step_,
                      .begin = begin,
                      .duration = times.at(run.end) - begin});
  }
  recorder_.add(spans_);
  return end.time;
}

void OperatorRecorder::begin_op(const gpu::Op&) {
  op_begin_ = tracing::trace_ticks();
}

void OperatorRecorder::end_op(const gpu::Op& op) {
  if (!in_slice_) return;
  const std::uint64_t end = tracing::trace_ticks();
  runs_.push_back({number_of(op), op_begin_, end});
}

// The operators are numbered program by program.
std::uint32_t OperatorRecorder::number_of(const gpu::Op& op) const {
  std::size_t before = 0;
  for (std::uint32_t program = 0; program < engine_.programs(); ++program) {
    const std::vector<gpu::Op>& ops = engine_.graph(program).ops;
    if (!std::less<>()(&op, ops.data()) && std::less<>()(&op, ops.data() + ops.size()))
      return static_cast<std::uint32_t>(before + static_cast<std::size_t>(&op - ops.data()));
    before += ops.size();
  }
  ES_CHECK_MSG(false, "an operator of no program of the model");
}

std::vector<tracing::TracedOperator> traced_operators(const gpu::Engine& engine) {
  std::vector<tracing::TracedOperator> operators;
  for (std::uint32_t program = 0; program < engine.programs(); ++program) {
    const gpu::Graph& graph = engine.graph(program);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      const gpu::Op& op = graph.ops[i];
      operators.push_back({.node = op.name,
                           .kind = gpu::op_name(op.kind),
                           .backward = i >= engine.forward_ops(program),
                           .flops = gpu::op_flops(graph, op),
                           .bytes = gpu::op_bytes(graph, op)});
    }
  }
  return operators;
}

std::vector<tracing::TracedMemory> traced_memory(const gpu::Engine& engine,
                                                 std::uint32_t gradient_buffers, std::uint32_t ests,
                                                 std::uint64_t batch_bytes) {
  const gpu::MemoryUse use = engine.memory_use();
  const auto bytes = [](std::int64_t count) { return static_cast<std::uint64_t>(count); };
  std::vector<tracing::TracedMemory> parts{
      {"parameters", "job", bytes(use.params)},
      {"optimizer state", "job", bytes(use.moments)},
      {"constants of the model", "job", bytes(use.constants)},
      {"contexts of ESTs", "job", bytes(use.context) * ests},
      {"gradients in host memory", "step", bytes(use.gradient_slot) * gradient_buffers},
      {"gradients in device memory", "step", bytes(use.device_gradients)},
      {"gradients that the device has no room for", "step", bytes(use.spilled_gradients)},
      {"mini-batches", "slices", batch_bytes},
      {"activations and their gradients", "slice", bytes(use.arena)},
      {"workspace of kernels", "operator", bytes(use.workspace)}};
  std::erase_if(parts, [](const tracing::TracedMemory& part) { return part.bytes == 0; });
  return parts;
}

double peak_of(const gpu::Engine& engine) {
  const DeviceType& type = engine.device_type();
  if (gpu::is_gpu(type)) {
    for (const gpu::CudaDevice& device : gpu::cuda_inventory().devices)
      if (device.type() == type) return device.peak_tflops * 1e3;
    return 0;
  }
  const auto cpu = parse_cpu_class(type.name);
  return cpu ? gpu::peak_gflops(*cpu) * engine.threads() : 0;
}

}  // namespace es::actors::worker
