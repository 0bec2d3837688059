#include "actors/worker/shell/device_actor.h"

#include <caf/all.hpp>

namespace es::actors {

void DeviceState::init(caf::stateful_actor<DeviceState>* self, std::shared_ptr<DeviceParts> parts,
                       caf::actor control, caf::actor data_workers) {
  self_ = self;
  parts_ = std::move(parts);
  control_ = std::move(control);
  data_workers_ = std::move(data_workers);
  const DeviceOptions& options = parts_->options;
  reduction_.emplace(*parts_->engine, options.spec.max_p);
  base_.emplace(options.node_dir);
  lane_.emplace(*parts_->recorder);
  operators_.emplace(*parts_->engine, *parts_->recorder);
  held_.emplace(
      *parts_->engine, worker::HeldVersion::Job{options.job, options.spec, options.spec_toml},
      [control = control_](auto done) { caf::anon_send(control, DeviceEvent{std::move(done)}); });
}

// If memory is missing, this worker fails with an error that says what it was for, or only the
// requested checkpoint fails. The process does not end.
void DeviceState::perform(const DeviceCommand& command) {
  host_copies_ = command.host_copies;
  try {
    std::visit([this](const auto& e) { perform_effect(e); }, command.effect);
  } catch (const std::bad_alloc& missing) {
    // gpu::NoMemory says what the memory was for. Other allocations throw a bad_alloc without a
    // text.
    const bool named = dynamic_cast<const gpu::NoMemory*>(&missing) != nullptr;
    const std::string error = named ? missing.what() : "not enough memory for this worker";
    const auto* write = std::get_if<worker::WriteVersion>(&command.effect);
    // A checkpoint that cannot be written does not end the job.
    if (write == nullptr) return fail(error, true);
    report(worker::CheckpointFinished{
        write->request, write->directory, parts_->engine->version(), {}, error});
  }
}

void DeviceState::do_step_work() {
  for (const DeviceCommand& command : parts_->step_work->take()) perform(command);
}

template <class Other>
void DeviceState::perform_effect(const Other&) {
  ES_CHECK_MSG(false, "an effect of the control half reached the device");
}

void DeviceState::report(worker::EngineEvent event) {
  self_->send(control_, DeviceEvent{std::move(event)});
}

// An error of kind `usage` is one of the data, which can be repaired.
void DeviceState::fail(const Error& error) {
  return error.kind == ErrorKind::kUsage ? fail_for_data(error.message) : fail(error.message);
}

void DeviceState::end_if_device_lost() {
  const Status device = parts_->engine->device_status();
  if (!device.ok()) parts_->on_device_lost(device.error().message);
}

// An AbandonGenerations that arrives after the new generation began changes nothing.
void DeviceState::perform_effect(const worker::AbandonGenerations& effect) {
  if (generation_ >= effect.before) return;
  tree_.reset();
  // The segments of an old generation are closed. A peer that reads late finds no memory instead of
  // wrong data.
  if (gradients_ && parts_->options.spec.shard.state == "on") kept_sums_ = gradients_->take_sums();
  gradients_.reset();
  exported_.reset();
  exports_.clear();
  for (const Waiting& one : std::exchange(waiting_, {}))
    one.snapshot.replica->give_up("its generation has ended");
  peers_.clear();
  run_ready_slices(slices_.abandon());
}

void DeviceState::begin_generation(Generation generation) {
  if (gradients_ && generation_ == generation) return;
  generation_ = generation;
  // Segments are labelled with the generation, so every generation has new ones.
  gradients_ =
      std::make_unique<worker::GradientStore>(parts_->options.job, parts_->options.incarnation,
                                              generation, parts_->engine->table().trained_floats());
  tree_.reset();
  stepping_ = false;
  run_ready_slices(slices_.abandon());
}

caf::behavior device_actor(caf::stateful_actor<DeviceState>* self,
                           std::shared_ptr<DeviceParts> parts, caf::actor control,
                           caf::actor data_workers) {
  self->state.init(self, std::move(parts), std::move(control), std::move(data_workers));
  return {
      [=](const DeviceCommand& command) { self->state.perform(command); },
      [=](const DoStepWork&) { self->state.do_step_work(); },
      [=](const CopyOut& wanted) { self->state.copy_out(wanted); },
      [=](const ResumeSlices&) { self->state.resume_slices(); },
      [=](const TraceDevice& trace) { self->state.on_trace(trace); },
      [=](const Msg<wire::RunLocalStep>& message) { self->state.on_slice(*message.view()); },
  };
}

}  // namespace es::actors
