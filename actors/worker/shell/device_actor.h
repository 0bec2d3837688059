#pragma once
// DeviceActor: the device half of a worker. It owns the engine, the replica and the gradient
// memory, and it grants the device to the ESTs of its ranks in turn, one time slice each per global
// step.
//
// Accepts   DeviceCommand from the control half: one effect of the worker core.
//           CopyOut from the control half: data that is only in device memory has to be copied to
//           its segment.
//           RunLocalStep from an EST that was granted a slice. The slices run in rank order,
//           whatever their order of arrival. A slice of an abandoned generation is answered with
//           SliceDone and not run.
//           RunSlices from itself.
// Sends     DeviceEvent, DeviceStats and CopiedOut to the control half; GrantSlice, SliceDone and
//           Dismiss to ESTs; NextSlice to the data workers.
//           RunSlices to itself. The message is queued behind slices that have already arrived, so
//           the actor knows them when it begins a slice and can copy the next mini-batch to the
//           device meanwhile.
// State     The engine (version, parameters, optimizer, contexts of all ranks), and the gradient
//           tree and segments of the current generation. Nothing is durable; any other member can
//           replace this one.
// Fails     Errors of the engine (a loss that is not finite, a damaged checkpoint) and mini-batches
//           that could not be loaded become an event for the control half; the step is abandoned
//           and the version stays. If the cause can be repaired (unreadable data, a sample that the
//           engine refuses, missing gradient memory), the version is first written to the rescue
//           directory. Data of a peer that cannot be read causes DataUnreadable. The loss of the
//           device ends the process.
// Order     Commands are performed in order; slices run in rank order.
// Limits    At most gpu::max_live_buffers gradient buffers, and as many mini-batches as the pool
//           has slots.
// Threads   Detached, because a kernel can run for a long time while the control half must answer
//           the head. Checkpoints are written by another thread (version_writer.h), which reads the
//           live replica; every function that changes the replica calls thaw() first.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/data_workers/shell/loader_actor.h"
#include "actors/protocol/shell/caf_messages.h"
#include "actors/version/reduce_parts.h"
#include "actors/version/version_io.h"
#include "actors/worker/device/audit_run.h"
#include "actors/worker/shell/device_messages.h"
#include "actors/worker/device/gradient_store.h"
#include "actors/worker/device/snapshot.h"
#include "actors/worker/device/step_clock.h"
#include "actors/worker/device/version_writer.h"
#include "gpu/cuda/device_reduction.h"
#include "gpu/engine/engine.h"
#include "gpu/engine/frozen_replica.h"
#include "gpu/est/gradient_tree.h"
#include "proto/messages.h"
#include "store/metrics/metric.h"

namespace es::actors {

struct DeviceOptions {
  JobId job;
  Incarnation incarnation;
  JobSpec spec;
  std::string spec_toml;             // the canonical text, for checkpoints
  Version last_version = 0;          // the number of steps of the job
  std::filesystem::path rescue_dir;  // for the last state of a job that fails for its data
  std::optional<worker::GradientFault> fault{};  // for tests: this device computes wrongly
  std::optional<Version> lost_at{};              // for tests: this device is lost in that step
};

// The parts that worker_main builds before any actor runs, so that their errors are ordinary
// results.
struct DeviceParts {
  DeviceOptions options;
  std::unique_ptr<gpu::Engine> engine;
  std::shared_ptr<DataSource> data;
  std::shared_ptr<AbandonedBelow> abandoned_below;
  std::function<void(const std::string& error)> on_device_lost;  // ends the process
};

class DeviceState {
 public:
  void init(caf::stateful_actor<DeviceState>* self, std::shared_ptr<DeviceParts> parts,
            caf::actor control, caf::actor data_workers);
  void perform(const DeviceCommand& command);
  void copy_out(const CopyOut& wanted);
  void on_slice(const wire::RunLocalStep::Reader& slice, const caf::actor& est);
  void run_next_slices();

 private:
  struct Slice {
    caf::actor est;
    std::uint32_t slot = 0;
    std::string error;  // of its mini-batch
    // the number of this arrival; it identifies the content of the slot until SliceDone
    std::uint64_t serial = 0;
  };

  void perform_effect(const worker::AbandonGenerations& effect);
  void perform_effect(const worker::LoadVersion& effect);
  void perform_effect(const worker::StartLocalSteps& effect);
  void perform_effect(const worker::RunAudit& effect);
  void perform_effect(const worker::ReduceBucket& effect);
  void perform_effect(const worker::ApplyUpdate& effect);
  void perform_effect(const worker::ExportVersion& effect);
  void perform_effect(const worker::RunEvaluation& effect);
  void perform_effect(const worker::WriteVersion& effect);
  template <class Other>
  void perform_effect(const Other&);  // effects of the control half, which must not arrive here

  Status load_checkpoint(const protocol::FromCheckpoint& from, const std::string& copy);
  bool abandoned(Generation generation) const;
  void begin_generation(Generation generation);
  void set_ranks(RankRange ranks);
  void see_what_has_come();
  void work_off_slices();
  void end_done_slices();
  void announce_next_slice();
  void end_slice(const Slice& slice, Version step, VirtualRank rank);
  gpu::Batch batch_of(const Slice& slice) const;
  Status run_slice(VirtualRank rank, const Slice& slice);
  void say_if_slower();
  Result<float> local_step(VirtualRank rank, const gpu::Batch& batch, gpu::GradientTarget gradient,
                           gpu::EstContext& next, worker::LocalStepDigest* digest,
                           const gpu::Engine::OnBucketReady& on_bucket_ready);
  void end_if_device_lost();
  void give_up_step();
  void fail_for_data(const std::string& error);
  void fail_keeping_state(const std::string& error, const char* when);
  std::string where(VirtualRank rank) const;  // returns a prefix such as "EST 3, step 7: "
  Error wrong_batch(VirtualRank rank, const gpu::Batch& batch, const Error& error) const;
  Status take_gradient_slots();
  void fetch_replica();
  worker::Snapshot snapshot();
  void thaw();
  void node_ready(const gpu::NodeReady& node);
  void node_summed(const gpu::NodeReady& node);
  std::vector<protocol::RankResult> results_of(RankRange ranks) const;
  float* gradient_slot(std::uint32_t slot);
  Result<const float*> find_floats(const protocol::Bulk& bulk, std::int64_t floats);
  bool is_on_device(const float* data) const;
  Result<protocol::Bulk> sum_parts(std::uint32_t bucket, std::vector<worker::PartData>& parts);
  Result<protocol::Bulk> sum_on_device(std::uint32_t bucket,
                                       const std::vector<worker::PartData>& parts,
                                       const gpu::cuda::DevicePool::Block& out);
  Result<protocol::Bulk> sum_on_host(std::uint32_t bucket, std::vector<worker::PartData>& parts);
  gpu::AlignedBuffer copy_of(const float* device, std::int64_t floats);
  void provide_for_peers();
  void report(worker::EngineEvent event);
  void fail(const std::string& error) { report(worker::EngineFailed{error}); }

  caf::stateful_actor<DeviceState>* self_ = nullptr;
  std::shared_ptr<DeviceParts> parts_;
  caf::actor control_, data_workers_;
  std::map<VirtualRank, caf::actor> ests_;

  // digest of the version held here, if this worker has made its ledger line
  std::optional<Digest> params_;
  // this version, frozen for the writer and not thawed yet
  std::vector<std::shared_ptr<gpu::FrozenReplica>> frozen_;
  std::shared_ptr<gpu::CopyMemory> copies_;  // memory for the copies of one version

  // State of the current generation.
  Generation generation_;
  RankRange ranks_;
  std::unique_ptr<worker::GradientStore> gradients_;
  std::unique_ptr<Segment> exported_;
  std::unique_ptr<gpu::GradientTree> tree_;
  SegmentCache peers_;

  // State of the current step.
  Version step_ = 0;
  std::optional<VirtualRank> audited_;  // the local step of this rank is digested
  VirtualRank next_rank_ = 0;
  std::map<VirtualRank, Slice> waiting_;
  std::uint64_t arrivals_ = 0;    // number of slices that have ever arrived
  bool run_slices_sent_ = false;  // a RunSlices has been sent and has not arrived yet
  bool said_slower_ = false;
  std::map<VirtualRank, gpu::EstContext> next_contexts_;
  std::map<VirtualRank, float> losses_;
  // nodes of bucket 0 that wait for the loss of the running slice
  std::vector<gpu::NodeReady> first_bucket_;
  std::vector<double> slice_seconds_;  // of this step, by rank
  // finished, but SliceDone has not been sent yet
  std::vector<std::pair<VirtualRank, Slice>> done_;
  StepClock clock_;
  double told_at_ = 0;  // compute time, in seconds, at which SliceDone was last sent

  gpu::AlignedBuffer reduce_workspace_;
  bool host_copies_ = true;  // of the running command

  std::unique_ptr<worker::VersionWriter> writer_;  // the last member: it ends before what it reads
};

caf::behavior device_actor(caf::stateful_actor<DeviceState>* self,
                           std::shared_ptr<DeviceParts> parts, caf::actor control,
                           caf::actor data_workers);

}  // namespace es::actors
