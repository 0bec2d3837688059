#pragma once
// Engine: one worker's training engine. It holds a model for one device and the replica, runs
// local steps, applies updates and evaluates. Start reading here; the parts are in the sub-folders.
//
// A global step, as a worker drives it:
//   for each rank of the worker, ascending:
//     engine.local_step(rank, batch, next_cursor, {tree.begin_rank(rank), slot_address},
//     next[rank],
//                       [&](std::uint32_t bucket) { tree.bucket_ready(bucket); });
//   ... reduce_tree() per bucket by its owner, contexts gathered from all workers ...
//   engine.apply_update(reduced, next);     // version + 1
//   tree.release_all();
//
// Threads: an engine belongs to one thread at a time; it may have helpers (options.threads).
// Engines share nothing. Memory: create(), init_replica() and install() allocate what is large;
// steps and evaluation reuse it.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/batch.h"
#include "gpu/canonical/kernels.h"
#include "gpu/est/est_context.h"
#include "gpu/est/rank_tree.h"
#include "gpu/graph/step_runner.h"
#include "gpu/optim/optimizer.h"
#include "gpu/optim/update.h"
#include "gpu/optim/updater.h"
#include "gpu/parallel.h"
#include "gpu/params/buckets.h"
#include "gpu/params/param_table.h"
#include "gpu/replica.h"
#include "proto/base/digest.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

// Where local steps and evaluations run, and sums over a worker's ESTs are made.
enum class DeviceKind {
  kCpu,
  kGpu,
  kCudaHost,  // a GPU's program and kernels on host memory: slow, for tests
};

struct EngineOptions {
  CpuClass cpu_class = CpuClass::kScalar;  // of what runs on the host
  DeviceKind device = DeviceKind::kCpu;    // device_choice.h sets these from a device type's name
  int gpu_index = 0;                       // among the GPUs that this process sees
  std::uint64_t total_steps = 0;           // of the whole job; cosine and linear schedules need it
  std::int64_t bucket_bytes = 4 << 20;     // target size of a gradient bucket
  std::uint32_t threads = 1;  // that compute, the caller's included; bits do not depend on it
  // Levels D0 and D1: operators that a vendor library does faster (gpu/vendor/preference.h) run
  // there; on a GPU all that its libraries have (gpu/cuda/vendor.h). A process then serves one
  // kernel class.
  bool vendor = false;
  // Sums over ESTs that wait in the memory of a GPU at most; more of them wait in host memory. 0:
  // as many as there is room for.
  std::uint32_t device_sums = 0;
};

// The results of an evaluation; the spans stay valid until the engine is used again.
struct EvalBatch {
  std::vector<std::span<const float>> outputs;  // the graph's outputs in order, [count][...] each
  std::vector<double> losses;                   // [count]: the mean over the sample's own terms
};

// What the engine allocates, bytes. Only gradient_slot (one per live buffer) and context (one per
// EST) are multiplied by anything that depends on the number of ESTs. On a CPU the caller holds the
// slots; a GPU holds those that are not parts, and the caller the parts.
struct MemoryUse {
  std::int64_t params = 0;
  std::int64_t moments = 0;          // of the optimizer, all together
  std::int64_t constants = 0;        // constants of the model
  std::int64_t arena = 0;            // activations and their gradients, by lifetime
  std::int64_t arena_live_peak = 0;  // most bytes live at once: the lower bound of the arena
  std::int64_t workspace = 0;        // kernel scratch, shared by all operators
  std::int64_t gradient_slot = 0;
  std::int64_t device_gradients = 0;   // of a GPU: slots in its memory at present
  std::int64_t spilled_gradients = 0;  // and pinned host memory for slots that it has no room for
  std::int64_t context = 0;            // statistics of one EST
};

struct OpDescription {
  std::string name;    // module path, "layer1.0.conv1"
  std::string kind;    // "conv2d"
  std::string detail;  // what it does beyond its kind: "add, relu"; often empty
  std::string kernel;  // entries of the kernel table, forward and backward, "conv_fwd, ..."
  std::string output;  // "[32,28,28,64]"
  std::int64_t parameters = 0;
};

// For `esctl inspect`.
struct EngineDescription {
  std::string model;
  std::string kernel_class;  // the device type: "cpu-avx512", "cuda-sm90-h200"
  std::vector<OpDescription> ops;
  std::int64_t parameters = 0;
  std::size_t buckets = 0;
  MemoryUse memory;
};

class Engine {
 public:
  using OnBucketReady = StepRunner::OnBucketReady;  // called with buckets 0, 1, 2, ...

  // Builds model, backward pass, memory plan and buckets. The replica is empty at first.
  // Error (usage): a model that does not fit the layout, a class that this processor cannot
  // execute, a cosine or linear schedule without total_steps. Error (failure): vendor_library's;
  // no such GPU; missing memory, with the model, what it is for and how much is wanted.
  static Result<std::unique_ptr<Engine>> create(const JobSpec& spec, const SampleLayout& layout,
                                                const EngineOptions& options);

  // --- Constant after create().
  const ParamTable& table() const;
  const std::vector<Bucket>& buckets() const;
  const KernelTable& kernels() const;  // of the host
  const DeviceType& device_type() const;
  MemoryUse memory_use() const;
  EngineDescription describe() const;
  // Operators of a step, gradients too, that a vendor kernel runs, in order of execution:
  // "layer1.0.conv1 (conv2d weight gradient): brgconv_bwd_w:avx512_core".
  std::vector<std::string> vendor_ops() const;
  // Whose kernels those are, "oneDNN 2.6.3"; empty when there is none.
  std::string vendor_library() const;
  // As StepRunner::vendor_refusals().
  std::vector<std::string> vendor_refusals() const;
  // The learning rate that global step t (0-based) uses.
  float learning_rate(std::uint64_t step) const;
  // Arrays of Replica::moments.
  std::size_t moment_count() const;
  // How this job's level adds up gradients.
  GradientOrder gradient_order() const;
  // Whether slots are the device's, so that only those of parts are asked for in host memory.
  bool merges_on_device() const;
  // What sums over workers in the device's memory; nullptr: a CPU.
  cuda::DeviceReduction* reduction();
  // Takes the memory for that, once, if updates are the device's. REQUIRES: an update came before,
  // so that all else has its memory. Error (failure): the device is lost.
  Status provide_for_peers();

  // What this device does in a slower way than it could, and why; empty: nothing.
  std::string slower_because() const;

  // The model with its backward operators.
  const Graph& graph() const;
  // Whether the device still works; an error is for good. A CPU always does.
  Status device_status() const;
  void lose_device(const Error& error);  // for tests (StepRunner)
  // Mini-batches will come from this memory, which `owner` keeps: where it can, a device reads them
  // there instead of copying them once more. May be left out; once.
  void pin_batches(std::span<const float> memory, std::shared_ptr<const void> owner);
  // Sees every operator from now on; nullptr: nobody. For profiles.
  void set_observer(OpObserver* observer);
  // What an operator wrote; for an observer, while its end_op() runs.
  std::span<const float> values(TensorId t) const;
  // What it wrote of a parameter's gradient; likewise.
  std::span<const float> gradient(ParamId param) const;

  // --- The replica.
  // Version 0, a pure function of the spec. Error (failure): missing memory, as create();
  // nothing changes then.
  Status init_replica();
  // Takes over a replica (from a checkpoint or another worker).
  // Error (failure): sizes, ranks or versions that do not fit this model, a parameter, moment or
  // statistic that is not finite; nothing changes then.
  Status install(Replica replica);
  // A device that updates by itself keeps parameters and moments until fetch_replica(); the rest,
  // and the parameters' digest, are here always.
  Version version() const { return replica_.version; }
  const std::vector<EstContext>& contexts() const { return replica_.contexts; }
  // Brings replica() up to date. Error (failure): the device is lost.
  Status fetch_replica();
  // REQUIRES: fetch_replica() came after the last apply_update(), or there is no device.
  const Replica& replica() const;
  Digest state_digest() const;  // likewise
  Digest params_digest() const;

  // --- Training. REQUIRES of all: init_replica() or install() came before.
  // Forward and backward of one EST on spec.batch_size samples, from its context of the current
  // version. Writes the gradient of the mini-batch mean (total_floats(), padding included), adds it
  // to the sums of the target's path, and writes the context of the next version with
  // `next_cursor`; returns the loss. Changes nothing else: same arguments, same bits. Error
  // (usage), before anything runs: the batch has a value of an integer field outside the layout's
  // range, or of a real one that is not finite (names field, sample and value); only wrong data
  // give an error of this kind. Error (failure): an operator whose output, or whose gradient of a
  // parameter, is not finite (names rank, step, operator and parameter). Buckets with such a
  // gradient, and those after it, are not reported; what the step has merged so far is of no use
  // any more. Error (failure): the device is lost; this engine is of no use any more.
  Result<float> local_step(VirtualRank rank, const Batch& batch, SamplerCursor next_cursor,
                           const GradientTarget& gradient, EstContext& next,
                           const OnBucketReady& on_bucket_ready);

  // Says which local step follows the next one, as far as is known: a device copies its mini-batch
  // and statistics, and the host looks at its values, while it computes the next one; then it
  // begins with its forward pass. Nothing depends on its being right. REQUIRES: batch.serial != 0;
  // the batch's memory stays as it is until the next local_step() returns.
  void prefetch(VirtualRank rank, const Batch& batch);

  // reduced[b]: the floats of bucket b, summed over all ranks (not yet divided by max_p), in host
  // memory or in reduction()->pool(). Where this engine's ranks are all of them, the slots of that
  // path (GradientPath::whole), which may have no values; not a copy of them. next: the contexts of
  // all ranks in rank order. Afterwards the version is one higher. Error (failure): contexts of
  // another version: nothing changes then. A sum, or an updated parameter, that is not finite
  // (names parameter and step): with clipping a bad sum changes nothing; otherwise values are
  // checked block by block where they are used, so some parameters are updated already: the replica
  // is lost, and every use of it is this error again until install(). Since local_step lets no bad
  // gradient pass, that takes finite gradients of several ESTs with an infinite sum, or a learning
  // rate that throws a parameter out of fp32's range.
  Status apply_update(std::span<const float* const> reduced, std::vector<EstContext> next);

  // Evaluates a batch with the statistics of rank 0. The memory holds spec.batch_size samples of
  // which the first `count` count; the rest must be valid too (repeat some). Each sample's result
  // is independent of the others in the batch. Error: as local_step, for any sample.
  Result<EvalBatch> evaluate(const Batch& full_batch, std::uint64_t count);

  // The first sample of the batch that both refuse, if there is one.
  std::optional<std::uint64_t> wrong_sample(const Batch& batch) const;

 private:
  Engine(const JobSpec& spec, const SampleLayout& layout, const EngineOptions& options,
         const ParamTable& table);
  Status make_runner(Program program);
  struct WrongValue {
    const SampleField* field = nullptr;
    std::int64_t index = 0;  // of the word, among the field's in the batch
    float word = 0.0F;

    std::uint64_t sample() const { return static_cast<std::uint64_t>(index / field->words()); }
    Error error() const;
  };
  struct Following {
    VirtualRank rank = 0;
    Batch batch;
  };
  std::optional<WrongValue> find_wrong(const Batch& batch) const;
  Status check_fields(const Batch& batch);
  Status check_contexts(const std::vector<EstContext>& contexts, Version version) const;
  Status check_finite(const Replica& replica) const;
  StepInput input_of(VirtualRank rank, const Batch& batch) const;
  void prepare(const Following& following);
  Status update_on_host(const ReducedGradient& gradient, UpdateStep step);
  Status update_on_device(const ReducedGradient& gradient, UpdateStep step);
  Status clip(UpdateStep& step, Result<float> squares) const;
  Updater* updater();
  Status keep_if_finite();
  void replica_changed();
  Error fault_error(VirtualRank rank, const Fault& fault) const;
  Error lose_replica(const std::string& why);
  Error lose_replica_by_sum(const std::string& param);

  // Constant after construction.
  JobSpec spec_;
  SampleLayout layout_;
  EngineOptions options_;
  const KernelTable& kernels_;
  ParamTable table_;
  std::vector<Bucket> buckets_;

  Parallel parallel_;
  Optimizer optimizer_;
  std::unique_ptr<StepRunner> runner_;
  DeviceType device_type_;
  Replica replica_;
  Status usable_;                       // or why the replica is lost
  bool fetched_ = true;                 // else parameters and moments are the updater's
  std::vector<float> squares_;          // by parameter; for clipping
  std::optional<Following> following_;  // what follows the next local step
  std::uint64_t checked_ = 0;           // serial of a batch with good values; 0: none
};

}  // namespace es::gpu
