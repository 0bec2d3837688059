#pragma once
// DeviceActor: the device half of a worker. It owns the engine, the replica and the gradient
// memory, and it grants the device to the ESTs of its ranks in turn, one time slice each per global
// step. SliceQueue decides which slice runs next; the classes in actors/worker/device do the work
// that needs no actor.
//
// Accepts   DeviceCommand from the control half: one effect of the worker core.
//           DoStepWork from the control half: commands in StepWork have to be performed. A local
//           step whose gradients leave early performs them itself while it waits.
//           CopyOut from the control half: data that is only in device memory has to be copied to
//           its segment.
//           RunLocalStep from an EST that was granted a slice. The slices run in rank order,
//           whatever their order of arrival. A slice of an abandoned generation is answered with
//           SliceDone and not run.
//           TraceDevice from the control half.
//           ResumeSlices from itself.
// Sends     DeviceEvent, DeviceStats, DeviceTraced and CopiedOut to the control half; GrantSlice,
//           SliceDone and Dismiss to ESTs; NextSlice to the data workers.
//           ResumeSlices to itself. The message is queued behind slices that have already arrived,
//           so the actor knows them when it begins a slice and can copy the next mini-batch to the
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
// Limits    At most gpu::max_live_buffers gradient buffers, less than one where gradients leave
//           early (leaving_gradients.h), and as many mini-batches as the
//           pool has slots.
// Threads   Detached, because a kernel can run for a long time while the control half must answer
//           the head. Checkpoints are written by another thread (version_writer.h), which reads the
//           live replica; every function that changes the replica first calls HeldVersion::thaw().
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/tracing/core/device_lane.h"
#include "actors/worker/core/slice_queue.h"
#include "actors/worker/data_workers/shell/loader_actor.h"
#include "actors/worker/device/audit_run.h"
#include "actors/worker/device/bucket_reduction.h"
#include "actors/worker/device/gradient_store.h"
#include "actors/worker/device/held_version.h"
#include "actors/worker/device/leaving_gradients.h"
#include "actors/worker/device/operator_recorder.h"
#include "actors/worker/device/step_results.h"
#include "actors/worker/device/supplied_moments.h"
#include "actors/worker/shell/device_messages.h"
#include "actors/worker/shell/step_work.h"
#include "actors/worker/state/shared_base.h"
#include "actors/worker/state/version_io.h"
#include "gpu/engine/engine.h"
#include "gpu/est/gradient_tree.h"
#include "proto/messages.h"

namespace es::actors {

struct DeviceOptions {
  JobId job;
  Incarnation incarnation;
  JobSpec spec;
  std::string spec_toml;             // the canonical text, for checkpoints
  Version last_version = 0;          // the number of steps of the job
  std::filesystem::path rescue_dir;  // for the last state of a job that fails for its data
  std::filesystem::path node_dir;    // of all workers of this node
  std::optional<worker::GradientFault> fault{};  // for tests: this device computes wrongly
  std::optional<Version> lost_at{};              // for tests: this device is lost in that step
};

// The parts that worker_main builds before any actor runs, so that their errors are ordinary
// results.
struct DeviceParts {
  DeviceOptions options;
  std::unique_ptr<gpu::Engine> engine;
  std::shared_ptr<DataSource> data;
  std::shared_ptr<const store::CapturedInputs> inputs;  // of the model file; none: it is built in
  std::shared_ptr<AbandonedBelow> abandoned_below;
  std::shared_ptr<StepWork> step_work;
  std::shared_ptr<tracing::Recorder> recorder;                   // of this process
  std::function<void(const std::string& error)> on_device_lost;  // ends the process
};

class DeviceState {
 public:
  void init(caf::stateful_actor<DeviceState>* self, std::shared_ptr<DeviceParts> parts,
            caf::actor control, caf::actor data_workers);
  void perform(const DeviceCommand& command);
  void do_step_work();
  void copy_out(const CopyOut& wanted);
  void on_slice(const wire::RunLocalStep::Reader& slice);
  void resume_slices();
  void on_trace(const TraceDevice& trace);

 private:
  void perform_effect(const worker::AbandonGenerations& effect);
  void perform_effect(const worker::LoadVersion& effect);
  void perform_effect(const worker::StartLocalSteps& effect);
  void perform_effect(const worker::RunAudit& effect);
  void perform_effect(const worker::ReduceBucket& effect);
  void perform_effect(const worker::PartsRead& effect);
  const protocol::Contrib* own_part(const worker::ReduceBucket& effect) const;
  void report_sum(const worker::ReduceBucket& effect, const protocol::Bulk& data);
  void report_partial_sum(const worker::ReduceBucket& effect, const protocol::Bulk& data);
  void perform_effect(const worker::ApplyUpdate& effect);
  void perform_effect(const worker::HoldSum& effect);
  void perform_effect(const worker::UpdateShards& effect);
  void perform_effect(const worker::CommitShards& effect);
  void perform_effect(const worker::LoadShards& effect);
  void perform_effect(const worker::KeepShards& effect);
  void perform_effect(const worker::ExportShards& effect);
  void perform_effect(const worker::DropShards& effect);
  void perform_effect(const worker::DigestState& effect);
  void perform_effect(const worker::SupplyShards& effect);
  void perform_effect(const worker::ExportVersion& effect);
  void perform_effect(const worker::RunEvaluation& effect);
  void perform_effect(const worker::WriteVersion& effect);
  template <class Other>
  void perform_effect(const Other&);  // effects of the control half, which must not arrive here

  // What is true of this worker (device_actor.cc).
  Generation abandoned_below() const { return {parts_->abandoned_below->load()}; }
  bool abandoned(Generation generation) const { return generation < abandoned_below(); }
  void begin_generation(Generation generation);
  void report(worker::EngineEvent event);
  void fail(const std::string& error, bool elsewhere = false) {
    report(worker::EngineFailed{error, elsewhere});
  }
  void fail(const Error& error);
  void end_if_device_lost();

  // Slices (device_steps.cc).
  void set_ranks(RankRange ranks);
  Status take_gradient_slots();
  bool gradients_may_leave() const;
  void bucket_ready(std::uint32_t bucket);
  void wait_for_room();
  void run_ready_slices(worker::SliceDecision decision);
  void perform(const std::vector<worker::SliceEffect>& effects);
  void perform_slice_effect(const worker::GrantSlices& effect);
  void perform_slice_effect(const worker::EndSlice& effect);
  void perform_slice_effect(const worker::AnnounceSlice& effect);
  void perform_slice_effect(const worker::YieldToMailbox& effect);
  void perform_slice_effect(const worker::StayIdle& effect);
  worker::SliceDecision run_one(const worker::RunSlice& run);
  Status run_slice(const worker::RunSlice& run);
  gpu::Batch batch_of(const worker::Slice& slice) const;
  Result<float> local_step(VirtualRank rank, const gpu::Batch& batch, gpu::GradientTarget gradient,
                           gpu::EstContext& next, worker::LocalStepDigest* digest,
                           const gpu::Engine::OnBucketReady& on_bucket_ready);
  void part_ready(const gpu::PartReady& ready);
  void report_part(const gpu::PartReady& ready);
  void warn_if_slower();
  std::string where(VirtualRank rank) const;  // returns a prefix such as "EST 3, step 7: "
  Error wrong_batch(VirtualRank rank, const gpu::Batch& batch, const Error& error) const;

  // Traces (device_trace.cc).
  void begin_trace(Version step);
  Instant trace_slice_begins();
  void trace_slice_ends(VirtualRank rank, Instant begin);
  void add_to_trace(tracing::SpanKind kind, Version step, std::uint32_t number, Instant begin);
  // The begin of a span; not used while nothing is traced.
  Instant span_begin() const { return traced_ ? tracing::trace_now() : Instant{}; }

  // Sums and updates (device_reduction.cc).
  Result<std::span<const std::byte>> find_bytes(const protocol::Bulk& bulk);
  Result<const float*> find_floats(const protocol::Bulk& bulk, std::int64_t floats);
  // What the steps of all ranks have left: the next contexts, and the losses of the ledger line.
  using Made = std::pair<std::vector<gpu::EstContext>, protocol::LedgerLine>;
  Result<Made> contexts_of(const std::vector<protocol::RankResult>& results) const;
  void report_update(protocol::LedgerLine line, const std::string& decisions, bool last,
                     Instant begin);
  void provide_for_peers();
  Result<float*> slot_for_evaluation(Generation generation);

  // Sharded state (device_shards.cc).
  using UseOfSnapshot = std::function<void(const worker::Snapshot&)>;
  protocol::Bytes squares_of(std::uint32_t bucket, const float* sum);
  Result<std::vector<float>> squares_from(const protocol::Bytes& of_buckets) const;
  const float* held_sum(const protocol::Reduced& sum) const;
  std::vector<protocol::Updated> share_updated(const worker::UpdateShards& effect);
  Status load_shards(const worker::LoadShards& effect,
                     std::span<const worker::VersionPiece> pieces);
  void when_supplied(UseOfSnapshot use);

  // Versions (device_versions.cc).
  Status load_checkpoint(const protocol::FromCheckpoint& from, const std::string& copy);
  void share_base();
  void fetch_replica();
  void fail_for_data(const std::string& error);
  void fail_for_gradients(const Error& no_memory);
  void fail_keeping_state(const std::string& error, const char* when, bool elsewhere);

  caf::stateful_actor<DeviceState>* self_ = nullptr;
  std::shared_ptr<DeviceParts> parts_;
  caf::actor control_, data_workers_;
  std::map<VirtualRank, caf::actor> ests_;  // of all ranks that were ever here
  bool warned_slower_ = false;
  bool host_copies_ = true;  // of the running command
  std::optional<worker::BucketReduction> reduction_;
  std::optional<worker::HeldVersion> held_;
  std::optional<worker::SharedBase> base_;
  std::optional<TraceDevice> trace_wanted_;  // begins with the next step
  bool traced_ = false;
  std::optional<tracing::DeviceLane> lane_;
  std::optional<worker::OperatorRecorder> operators_;

  // Sharded state. Sums of an abandoned step, by bucket, until it is known whether other members
  // are ahead with it; the decisions of the update that was begun; what waits for moments of
  // others.
  std::map<std::uint32_t, std::unique_ptr<Segment>> kept_sums_;
  std::string next_decisions_;
  struct Waiting {
    worker::Snapshot snapshot;
    UseOfSnapshot use;
  };
  std::vector<Waiting> waiting_;

  // State of the current generation.
  Generation generation_;
  struct Export {
    Incarnation to;
    Version version = 0;
    std::unique_ptr<Segment> segment;
  };
  std::vector<Export> exports_;
  std::uint64_t next_export_ = 0;
  bool stepping_ = false;  // a step was begun
  RankRange ranks_;
  std::unique_ptr<worker::GradientStore> gradients_;
  std::unique_ptr<Segment> exported_;
  std::unique_ptr<gpu::GradientTree> tree_;  // nullptr if no local step can run
  SegmentCache peers_;

  // State of the current step.
  Version step_ = 0;
  std::optional<VirtualRank> audited_;  // the local step of this rank is digested
  bool leaving_ = false;                // its gradients leave early
  worker::LeavingGradients leaving_gradients_;
  worker::SliceQueue slices_;
  worker::StepResults results_;
  worker::StepClock clock_;
};

caf::behavior device_actor(caf::stateful_actor<DeviceState>* self,
                           std::shared_ptr<DeviceParts> parts, caf::actor control,
                           caf::actor data_workers);

}  // namespace es::actors
