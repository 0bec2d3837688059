// The versions that the device holds: loads one, exports it to a peer, writes it to the disk.
#include <caf/all.hpp>

#include "actors/base/log/log.h"
#include "actors/base/program/default_paths.h"
#include "actors/worker/shell/device_actor.h"
#include "actors/worker/state/initial_weights.h"
#include "proto/base/kill_point.h"
#include "store/checkpoint/new_file.h"
#include "store/path_roots.h"

namespace es::actors {

void DeviceState::perform_effect(const worker::LoadVersion& effect) {
  kill_point("load.begin");
  const Instant begin = span_begin();
  // A checkpoint may still be reading the version that is replaced here. It gets its copies first.
  // The digest is removed, because it belongs to that version.
  held_->thaw();
  held_->set_params_digest(std::nullopt);
  held_->set_decisions(effect.decisions);
  gpu::Engine& engine = *parts_->engine;
  if (effect.held)
    if (const Status held = engine.hold(*effect.held); !held.ok())
      return fail(held.error().message, true);
  if (std::holds_alternative<protocol::FromSeed>(effect.from)) {
    Status made = engine.init_replica();
    if (made.ok()) made = load_initial_weights(engine, parts_->options.spec);
    if (!made.ok()) return fail(made.error().message);
  } else if (const auto* disk = std::get_if<protocol::FromCheckpoint>(&effect.from)) {
    const Status status = load_checkpoint(*disk, effect.copy);
    if (!status.ok() && status.error().kind == ErrorKind::kRefused)
      // The file is undamaged, but every checkpoint of this job would be refused.
      return fail(status.error().message);
    if (!status.ok()) {
      // `gone` must be false if the file may still be good: after a read error, and for a copy,
      // which may have been damaged on its way.
      const bool read = status.error().kind != ErrorKind::kFailure && effect.copy.empty();
      return report(
          worker::CheckpointDamaged{effect.generation, disk->path, status.error().message, read});
    }
  } else {
    const auto& state = std::get<protocol::State>(effect.from);
    const Status loaded = worker::import_version(engine, parts_->options.spec, state, peers_);
    // What the peer sent is not at fault: the base of the adapters is missing here.
    if (!loaded.ok() && loaded.error().kind == ErrorKind::kRefused)
      return fail(loaded.error().message);
    if (!loaded.ok()) return report(worker::DataUnreadable{effect.generation, state.stamp.sender});
  }
  if (engine.version() != effect.version)
    return fail("loaded version " + std::to_string(engine.version()) + ", wanted " +
                std::to_string(effect.version));
  share_base();
  add_to_trace(tracing::SpanKind::kLoad, effect.version, 0, begin);
  kill_point("load.end");
  report(worker::VersionLoaded{effect.version});
}

// Shares the frozen parameters with the other workers of this node. Without it the job needs more
// memory and nothing else.
void DeviceState::share_base() {
  const auto shared = base_->share(*parts_->engine);
  if (!shared) log::warning("the base is not shared with other workers: " + shared.error().message);
}

// Loads a checkpoint from the disk, or from the local copy of one on another node, which is then
// removed.
Status DeviceState::load_checkpoint(const protocol::FromCheckpoint& from, const std::string& copy) {
  const std::string& path = copy.empty() ? from.path : copy;
  // The node is at fault and not the state, which another node may read.
  if (const Status place = store::check_place(store::RootKind::kCheckpoints, path); !place.ok())
    return failure(place.error().message);
  const Status status = worker::load_checkpoint(*parts_->engine, parts_->options.spec, path);
  std::error_code ignored;
  if (!copy.empty()) std::filesystem::remove_all(copy, ignored);
  return status;
}

void DeviceState::perform_effect(const worker::ExportVersion& effect) {
  if (abandoned(effect.generation)) return;
  // Several members may fetch the version in one round. It does not change in between, so all of
  // them read one segment.
  if (!exported_ || generation_ != effect.generation) {
    begin_generation(effect.generation);
    kill_point("export.begin");
    auto segment = Segment::create(segment_label(parts_->options.job, parts_->options.incarnation,
                                                 effect.generation, "version"),
                                   worker::export_bytes(*parts_->engine));
    if (!segment) return fail(segment.error().message);
    exported_ = *std::move(segment);
  }
  fetch_replica();
  report(worker::VersionExported{effect.generation, effect.to,
                                 worker::export_version(*parts_->engine, *exported_)});
}

void DeviceState::perform_effect(const worker::WriteVersion& effect) {
  kill_point("checkpoint.copy");
  worker::WriteVersion asked = effect;
  if (std::filesystem::path(asked.directory).is_relative()) {
    const std::filesystem::path& rescue = parts_->options.rescue_dir;
    if (rescue.empty())
      return report(worker::CheckpointFinished{asked.request,
                                               asked.directory,
                                               parts_->engine->version(),
                                               {},
                                               "this node has no directory --rescue"});
    asked.directory = (rescue / asked.directory).string();
  }
  fetch_replica();
  if (parts_->engine->holds_all()) return held_->write(held_->freeze(), asked);
  when_supplied([this, asked](const worker::Snapshot& version) { held_->write(version, asked); });
}

// Updates the host copy of the replica, if the device updates its own. A device whose memory cannot
// be read is lost, and the process ends.
void DeviceState::fetch_replica() {
  const Status fetched = parts_->engine->fetch_replica();
  if (!fetched.ok()) parts_->on_device_lost(fetched.error().message);
}

void DeviceState::fail_for_data(const std::string& error) {
  fail_keeping_state(error, "when the data are repaired", false);
}

void DeviceState::fail_for_gradients(const Error& no_memory) {
  fail_keeping_state("gradients: " + no_memory.message, "where there is more memory", true);
}

// Keeps the last state of a job whose failure can be repaired, so that the job can continue from
// it. Another worker of this host may have written it already; both states are equal.
void DeviceState::fail_keeping_state(const std::string& error, const char* when, bool elsewhere) {
  const Version version = parts_->engine->version();
  const std::filesystem::path& parent = parts_->options.rescue_dir;
  if (version == 0 || parent.empty()) return fail(error, elsewhere);
  if (!parts_->engine->holds_all())
    return fail(error + "; the state after step " + std::to_string(version) +
                    " is not kept, because it is divided among the workers",
                elsewhere);
  const std::filesystem::path directory =
      parent / (rescued_state_prefix(parts_->options.job) + std::to_string(version));
  // keep_snapshot reports what is wrong with the directory.
  (void)store::make_directories(store::posix_file_system(), parent);
  fetch_replica();
  const auto kept = worker::keep_snapshot(held_->snapshot(), directory);
  const std::string state = "; the state after step " + std::to_string(version);
  fail(error + state +
           (kept ? " is kept in " + kept->path.string() + "; a job can continue from it " + when
                 : " could not be kept: " + kept.error().message),
       elsewhere);
}

}  // namespace es::actors
