// What the device half records while its job is traced.
#include <caf/all.hpp>

#include "actors/worker/shell/device_actor.h"
#include "gpu/engine/device_choice.h"
#include "gpu/est/gradient_tree.h"

namespace es::actors {

// A step that runs already would have some of its operators only.
void DeviceState::on_trace(const TraceDevice& trace) {
  parts_->engine->set_observer(nullptr);
  traced_ = false;
  trace_wanted_.reset();
  if (trace.trace != 0) trace_wanted_ = trace;
}

void DeviceState::begin_trace(Version step) {
  const TraceDevice wanted = *std::exchange(trace_wanted_, std::nullopt);
  gpu::Engine& engine = *parts_->engine;
  // An observer makes a GPU wait for each operator, so its steps would be others than usual.
  const bool operators = wanted.all_operators || parse_cpu_class(engine.device_type().name);
  if (operators) engine.set_observer(&*operators_);
  traced_ = true;
  const JobSpec& spec = parts_->options.spec;
  const std::uint32_t buffers =
      engine.merges_on_device()
          ? static_cast<std::uint32_t>(tree_->part_slots().size())
          : gpu::max_live_buffers(ranks_, spec.max_p, engine.gradient_order());
  DeviceTraced began{.trace = wanted.trace, .step = step, .about = {}};
  if (operators) began.about.operators = worker::traced_operators(engine);
  began.about.memory = worker::traced_memory(engine, buffers, spec.max_p,
                                             parts_->data->pool.all_words().size_bytes());
  if (wanted.peak) began.about.peak_gflops = worker::peak_of(engine);
  self_->send(control_, std::move(began));
}

Instant DeviceState::trace_slice_begins() {
  lane_->wait_ends(tracing::trace_now());
  return operators_->begin_slice(step_);
}

void DeviceState::trace_slice_ends(VirtualRank rank, Instant begin) {
  lane_->add(tracing::SpanKind::kSlice, step_, rank, begin, operators_->end_slice());
}

void DeviceState::add_to_trace(tracing::SpanKind kind, Version step, std::uint32_t number,
                               Instant begin) {
  if (traced_) lane_->add(kind, step, number, begin, tracing::trace_now());
}

}  // namespace es::actors
