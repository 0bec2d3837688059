#pragma once
// Engine: one worker's training engine. It holds a model for one device and the replica. It runs
// local steps, applies updates and evaluates. The parts of the engine are in the sub-folders. A
// model may have several programs (Graph::programs): Batch::program says which one computes a
// mini-batch. If they are losses of one loop (loss_turns.h), the version says it.
//
// A worker drives a global step as follows:
//   for each rank of the worker, in ascending order:
//     engine.local_step(rank, batch, next_cursor, {tree.begin_rank(rank), slot_address},
//                       next[rank], [&](std::uint32_t bucket) { tree.bucket_ready(bucket); });
//   ... the owner of each bucket calls reduce_parts(); contexts are gathered from all workers ...
//   engine.apply_update(reduced, next);     // the version increases by one
//   tree.release_all();
//
// An engine may hold the moments of some buckets only (hold()), because other workers hold those of
// the others. Every engine has all parameters. The update of such a step has parts:
//   engine.sums_of_squares(bucket, sum, squares of its parameters);   // if the job clips
//   ... the squares of all buckets are gathered from all workers ...
//   engine.update_held(sums, squares);
//   ... bucket_params(bucket) goes to all workers, which call replace_params(bucket, ...) ...
//   engine.commit_update(next);             // the version increases by one
//
// Threads: an engine may be used by one thread at a time. It may have helper threads
// (options.threads). Engines share no state. Memory: create(), init_replica() and install()
// allocate everything that is large; steps and evaluations reuse it.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/base/batch.h"
#include "gpu/base/parallel.h"
#include "gpu/canonical/kernels.h"
#include "gpu/engine/whole_updates.h"
#include "gpu/est/est_context.h"
#include "gpu/est/rank_tree.h"
#include "gpu/graph/step_runner.h"
#include "gpu/optim/optimizer.h"
#include "gpu/optim/replica.h"
#include "gpu/optim/update.h"
#include "gpu/optim/updater.h"
#include "gpu/params/buckets.h"
#include "gpu/params/param_table.h"
#include "proto/base/digest.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

// Where local steps and evaluations run and where the sums over a worker's ESTs are computed.
enum class DeviceKind {
  kCpu,
  kGpu,
  kCudaHost,  // the program and the kernels of a GPU on host memory: slow, for tests
};

struct EngineOptions {
  CpuClass cpu_class = CpuClass::kScalar;  // kernel class of everything that runs on the host
  DeviceKind device = DeviceKind::kCpu;    // device_choice.h sets it from the name of a device type
  int gpu_index = 0;                       // index among the GPUs that this process sees
  std::uint64_t total_steps = 0;        // of the whole job; required by cosine and linear schedules
  std::int64_t bucket_bytes = 4 << 20;  // target size of a gradient bucket, bytes
  // Largest number of computing threads, the caller's included; it never changes bits. A step that
  // more threads would make slower (useful_threads.h) has one, unless `all_threads` is set.
  std::uint32_t threads = 1;
  bool all_threads = false;
  // Set at levels D0 and D1. On a CPU the operators that a vendor library computes faster
  // (gpu/onednn/preference.h) then run in that library. On a GPU all operators that its libraries
  // have run there (gpu/cuda/vendor.h). With this option a process serves only one kernel class.
  bool vendor = false;
  // Largest number of waiting sums over ESTs in the memory of a GPU. Further sums wait in host
  // memory. 0: the number is limited only by the free memory.
  std::uint32_t device_sums = 0;
};

// The results of an evaluation. The spans stay valid until the next call on the engine.
struct EvalBatch {
  std::vector<std::span<const float>> outputs;  // the graph's outputs in order, each [count][...]
  // [count]: for each sample the means of the losses and of the weights of its rows (Graph)
  std::vector<double> losses, weights;
};

// The memory that the engine allocates, in bytes. Only `gradient_slot` (one for each live buffer)
// and `context` (one for each EST) are multiplied by a number that depends on the number of ESTs.
// On a CPU the caller holds all slots. A GPU holds the slots that are not parts, and the caller
// holds those of the parts.
struct MemoryUse {
  std::int64_t params = 0;
  std::int64_t moments = 0;    // all arrays of the optimizer together, as far as they are held
  std::int64_t constants = 0;  // constants of the model
  // Activations and their gradients, which share memory according to their lifetimes, of the
  // program that needs most. On a CPU it has only those for which there is no room where gradients
  // of parameters are not yet written.
  std::int64_t arena = 0;
  std::int64_t arena_live_peak = 0;  // largest number of live bytes: the lower bound of `arena`
  std::int64_t workspace = 0;        // kernel scratch, shared by all operators
  std::int64_t gradient_slot = 0;
  // CPU only: the most of a slot that has memory at one time, if its buckets leave early
  // (gpu/graph/leaving.h).
  std::int64_t gradient_leaving = 0;
  std::int64_t device_gradients = 0;  // GPU only: slots in device memory at present
  // GPU only: pinned host memory for slots without room on the device
  std::int64_t spilled_gradients = 0;
  std::int64_t context = 0;  // statistics of one EST
  bool operator==(const MemoryUse&) const = default;
};

struct OpDescription {
  std::string name;    // module path, for example "layer1.0.conv1"
  std::string kind;    // for example "conv2d"
  std::string detail;  // what the operator does beyond its kind, "add, relu"; often empty
  // Entries of the kernel table, forward and backward, for example "conv_fwd, ...".
  std::string kernel;
  std::string output;  // shape, for example "[32,28,28,64]"
  std::int64_t parameters = 0;
};

// The description that `esctl inspect` prints.
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
  // Called with the buckets 0, 1, 2, ... in this order.
  using OnBucketReady = StepRunner::OnBucketReady;

  // Builds the backward pass of the model, the memory plan and the buckets. The replica is empty at
  // first. `model` is for mini-batches of spec.batch_size samples. Error (usage): this processor
  // cannot execute the class, a cosine or linear schedule has no total_steps, a group of
  // parameters names a parameter that the model does not have, or the optimizer does not fit what
  // the model file brings (captured_updates.h). Error (failure):
  // an error of vendor_library(); there is no such GPU; memory is missing (the text names the
  // model, the purpose and the number of bytes).
  static Result<std::unique_ptr<Engine>> create(const JobSpec& spec, Graph model,
                                                const EngineOptions& options);
  // The memory that an engine of create() will have, found without allocating it. For a GPU it
  // lacks what its libraries and gradients need. Errors: those of create() but for the last ones.
  static Result<MemoryUse> planned_memory(const JobSpec& spec, Graph model,
                                          const EngineOptions& options);
  // The same for a built-in model (gpu/models/models.h). Error (usage), beside the others: the
  // model does not fit the layout.
  static Result<std::unique_ptr<Engine>> create(const JobSpec& spec, const SampleLayout& layout,
                                                const EngineOptions& options);

  // --- The following functions return values that are constant after create().
  const ParamTable& table() const;
  const std::vector<Bucket>& buckets() const;
  const KernelTable& kernels() const;  // the kernels of the host
  const DeviceType& device_type() const;
  MemoryUse memory_use() const;
  EngineDescription describe() const;
  // Returns the operators of a step, backward operators included, that a vendor kernel runs, in
  // order of execution: "layer1.0.conv1 (conv2d weight gradient): brgconv_bwd_w:avx512_core".
  std::vector<std::string> vendor_ops() const;
  // Returns the library of these kernels, for example "oneDNN 2.6.3"; empty if there is none.
  std::string vendor_library() const;
  // Returns StepRunner::vendor_refusals().
  std::vector<std::string> vendor_refusals() const;
  // Returns the learning rate that global step `step` (0-based) uses, without factors of groups.
  float learning_rate(std::uint64_t step) const;
  // Returns the number of arrays in Replica::moments.
  std::size_t moment_count() const;
  // Returns whether the norm of gradients is clipped, so that an update needs sums of squares.
  bool clips() const;
  // Returns the states of a captured optimizer by parameter; of others none.
  std::span<const ParamState> optimizer_states() const { return states_; }
  // Returns how many floats of the parameters a version keeps, which is what checkpoints and peers
  // get: all, or those that are trained if the job has adapters. The others follow from the job.
  std::int64_t kept_floats() const;
  // Returns the order in which this job's level sums gradients.
  GradientOrder gradient_order() const;
  // Returns whether the device holds the slots. Then only the slots of parts must exist in host
  // memory.
  bool merges_on_device() const;
  // Returns the object that sums over workers in the device's memory; nullptr on a CPU.
  cuda::DeviceReduction* reduction();
  // Allocates the memory for these sums, once, if the device computes updates. REQUIRES: an update
  // came before, so that everything else has its memory already. Error (failure): the device is
  // lost.
  Status provide_for_peers();

  // Returns what this device does more slowly than it could, and why; empty: nothing.
  std::string slower_because() const;

  // Number of programs of the model.
  std::uint32_t programs() const;
  // Returns a program of the model with its backward operators.
  const Graph& graph(std::uint32_t program = 0) const;
  // Number of its own operators, which come first.
  std::size_t forward_ops(std::uint32_t program = 0) const;
  // Largest number of threads that compute an operator on a CPU.
  int threads() const { return parallel_.threads(); }
  // Returns whether the device still works. An error is permanent. A CPU always works.
  Status device_status() const;
  void lose_device(const Error& error);  // for tests (StepRunner)
  // Announces the memory from which mini-batches will come. `owner` keeps it alive. A device that
  // supports it reads the mini-batches there, which saves a copy. The call is optional and may be
  // made at most once.
  void pin_batches(std::span<const float> memory, std::shared_ptr<const void> owner);
  // `observer` sees every operator from now on; nullptr: no observer. For profiles.
  void set_observer(OpObserver* observer);
  // Returns the values that an operator wrote. Valid only for an observer, during its end_op().
  std::span<const float> values(TensorId t) const;
  // Returns what the operator wrote of a parameter's gradient, under the same condition.
  std::span<const float> gradient(ParamId param) const;

  // --- Whose moments are here. An engine begins with all.
  // From now on holds the moments of these buckets and of no others. What stays held keeps its
  // values, and what is new is +0; the memory of the rest returns to the system first. May be
  // called between steps, and before there is a replica. An engine that does not hold all updates
  // on the host, also if it has a device. REQUIRES: the buckets are ascending; no update has begun.
  // Error (failure): the device is lost, or memory is missing; then only those are held that were
  // held before too.
  Status hold(std::span<const std::uint32_t> buckets);
  bool holds(std::uint32_t bucket) const { return held_[bucket]; }
  bool holds_all() const;
  std::vector<std::uint32_t> held_buckets() const;  // ascending
  // The held ranges of each array of moments.
  const std::vector<FloatRange>& held() const { return held_ranges_; }

  // --- The replica.
  // Computes version 0, a pure function of the spec. Error (failure): memory is missing, as in
  // create(); the replica is unchanged then.
  Status init_replica();
  // Takes over a replica from a checkpoint or another worker. Error (failure): its sizes, ranks or
  // versions do not fit this model, it holds other moments than the engine, or a parameter, moment
  // or statistic is not finite. The engine is unchanged then.
  Status install(Replica replica);
  // A device that computes updates itself keeps the parameters and moments until fetch_replica().
  // The rest of the replica and the digest of the parameters are always available here.
  Version version() const { return replica_.version; }
  const std::vector<EstContext>& contexts() const { return replica_.contexts; }
  // Copies what only the device has into replica(). Error (failure): the device is lost.
  Status fetch_replica();
  // REQUIRES: fetch_replica() was called after the last apply_update(), or the host updates.
  const Replica& replica() const;
  // REQUIRES: as replica(), and holds_all().
  Digest state_digest() const;
  Digest params_digest() const;
  Digest frozen_digest() const { return frozen_digest_; }  // of the parameters that are frozen
  // The frozen parameters as far as they fill whole pages of host memory; empty if there are none.
  // Valid until init_replica() or install().
  std::span<const std::byte> frozen_pages() const;
  // Replaces this memory by a mapping of the file `fd`, so that processes of one host can share it.
  // Returns false if the system refuses; then nothing has changed. REQUIRES: the file has these
  // bytes and never changes.
  bool share_frozen(int fd);

  // --- Training. All functions REQUIRE that init_replica() or install() was called before.

  // Runs the forward and the backward pass of one EST on spec.batch_size samples, by the program of
  // the batch. It starts from the EST's context of the current version. It writes the gradient of
  // the mean over the mini-batch (trained_floats() floats, padding included), adds it to the sums
  // of the target's path, and writes the context of the next version with `next_cursor`. It returns
  // the loss. It changes nothing else: equal arguments give equal bits.
  //
  // Error (usage), before anything runs: the batch has a value of an integer field outside the
  // layout's range, or a value of a real field that is not finite (the text names field, sample and
  // value). Only wrong data give an error of this kind. Error (failure): the output of an operator,
  // or the gradient of a parameter, is not finite (the text names rank, step, operator and
  // parameter). The bucket with such a gradient and the buckets after it are not reported, and
  // everything that the step has merged up to now must be thrown away. Error (failure): the device
  // is lost; this engine cannot be used any more.
  Result<float> local_step(VirtualRank rank, const Batch& batch, SamplerCursor next_cursor,
                           const GradientTarget& gradient, EstContext& next,
                           const OnBucketReady& on_bucket_ready);

  // Announces the local step that is expected after the next one. While the device computes the
  // next step, the announced mini-batch and its statistics are copied to the device, and the host
  // checks the values of the mini-batch. Then the device starts with the announced forward pass. A
  // wrong announcement costs time but never changes a result. REQUIRES: batch.serial != 0; the
  // memory of the batch does not change until the next local_step() returns.
  void prefetch(VirtualRank rank, const Batch& batch);

  // Updates the replica to the next version. reduced[b] points to the floats of bucket b, summed
  // over all ranks and not yet divided by max_p, in host memory or in reduction()->pool(). If this
  // engine runs all ranks, it must point into the slots of that path (GradientPath::whole), not to
  // a copy; these slots may contain no values. `next` has the contexts of all ranks in rank order.
  // REQUIRES: holds_all().
  //
  // Error (failure): the contexts belong to another version; nothing changes then. Error (failure):
  // a sum or an updated parameter is not finite (the text names parameter and step). With clipping,
  // a bad sum changes nothing. Without clipping, the values are checked block by block where they
  // are used, so some parameters may already be updated: the replica is lost, and every use of it
  // returns this error again until install(). Because local_step() reports no gradient that is not
  // finite, such an error needs finite gradients of several ESTs with an infinite sum, or a
  // learning rate that moves a parameter out of the range of fp32.
  // `reductions`: how often evaluations have lowered the learning rate (ScheduleSpec, "plateau").
  Status apply_update(std::span<const float* const> reduced, std::vector<EstContext> next,
                      std::uint32_t reductions = 0);

  // --- The same update in parts, for an engine that need not hold all. The sums are in host memory
  // and are not copies of a slot that only the device has.
  // Returns an error if these contexts are not those of the next version, or the replica is lost.
  Status check_update(const std::vector<EstContext>& next) const;
  // Writes SUM64 of the squares of the summed gradient, for each parameter of params_of() of the
  // bucket. Clipping needs those of all trained parameters, which the holders of the other buckets
  // compute. They are infinite or NaN if an element of the sum is.
  void sums_of_squares(std::uint32_t bucket, const float* sum, std::span<float> by_param);
  // Updates the parameters and moments of the held buckets to the next version; version and
  // contexts stay. sums[b] is the sum of bucket b, nullptr where it is not held. `squares` has a
  // number for each trained parameter if the job clips, and is empty otherwise. Errors: as
  // apply_update(); a bad sum is found by the engines that hold it, and with clipping by all.
  Status update_held(std::span<const float* const> sums, std::span<const float> squares,
                     std::uint32_t reductions = 0);
  // The parameters of a bucket with their padding, in host memory. Valid until the replica is
  // replaced; they change with every update. REQUIRES: as replica().
  std::span<const float> bucket_params(std::uint32_t bucket) const;
  // Replaces the parameters of a bucket by those of the next version, as its holder computed them.
  void replace_params(std::uint32_t bucket, const float* params);
  // Replaces the floats of a bucket in one array of moments, for example when hold() has added the
  // bucket. REQUIRES: holds(bucket).
  void replace_moments(std::uint32_t bucket, std::size_t moment, const float* values);
  // Ends the update: the contexts become those of the next version. REQUIRES: every bucket has been
  // updated or replaced since the version began. Error: as check_update(); nothing changes then.
  Status commit_update(std::vector<EstContext> next);

  // Evaluates a batch with its program, with the statistics of rank 0 and, if a step was made and
  // the job has them, with other weights than the parameters: their average (OptimizerSpec::ema),
  // or those of a captured optimizer (kEvaluatedState). The memory contains spec.batch_size
  // samples, of which the first `count` are counted. The other samples must be valid too; a caller
  // can repeat some. The result of a sample does not depend on the other samples. Errors:
  // as local_step(), for any sample of the batch. `number` is that of the batch in the evaluation;
  // it selects the random numbers of a model that draws some. `free_slot` is a gradient slot whose
  // contents no worker needs: a CPU computes in it, and the results may lie there. nullptr: the
  // engine has such memory of its own, from the first such evaluation on. Error (failure): it is
  // missing.
  Result<EvalBatch> evaluate(const Batch& full_batch, std::uint64_t count, std::uint64_t number = 0,
                             float* free_slot = nullptr);

  // Prepares a second model that is only evaluated, with the parameters and the device of this
  // engine, for example one of another batch size. Replaces the one of an earlier call. Error
  // (usage): it has other parameters, or they are in another order. Error (failure): as create().
  Status add_forward(Graph model);
  // Evaluates the second model on a whole mini-batch of its own. Returns its outputs in order; they
  // stay valid until the next call on the engine. REQUIRES: add_forward() was called; no update was
  // applied since the replica came; real numbers of the batch are finite. Error (usage): an integer
  // of the batch outside its range. Error (failure): the device is lost, or memory is missing.
  Result<std::vector<std::span<const float>>> evaluate_forward(const Batch& batch);

  // Returns the first sample of the batch for which local_step() and evaluate() would refuse the
  // batch, if there is one.
  std::optional<std::uint64_t> wrong_sample(const Batch& batch) const;

 private:
  Engine(const JobSpec& spec, const EngineOptions& options, const ParamTable& table,
         std::vector<GroupRun> runs, CapturedOptimizer captured);
  Result<std::unique_ptr<StepRunner>> make_runner(std::vector<Program> programs);
  struct WrongValue {
    const SampleField* field = nullptr;
    std::int64_t index = 0;  // index of the word among the field's words in the batch
    float word = 0.0F;

    std::uint64_t sample() const { return static_cast<std::uint64_t>(index / field->words()); }
    Error error() const;
  };
  struct Following {
    VirtualRank rank = 0;
    Batch batch;
  };
  enum class Values { kAll, kIntegers };
  std::optional<WrongValue> find_wrong(const Graph& graph, const Batch& batch, Values values) const;
  std::optional<WrongValue> find_wrong(const Batch& batch) const {
    return find_wrong(graph(batch.program), batch, Values::kAll);
  }
  Status check_fields(const Batch& batch);
  Status check_contexts(const std::vector<EstContext>& contexts, Version version) const;
  Status check_finite(const Replica& replica) const;
  StepInput input_of(VirtualRank rank, const Batch& batch) const;
  Batch with_program(Batch batch) const;
  std::vector<double> sample_weights(const Graph& graph, std::uint64_t count) const;
  void prepare(const Following& following);
  void set_held(std::vector<bool> held);
  Status receive_sums(std::span<const float* const> sums);
  Status update(std::span<const float* const> sums, std::uint32_t reductions);
  Status update_on_host(const ReducedGradient& gradient, const UpdateStep& step);
  Status update_on_device(const UpdateStep& step);
  void host_changed();
  Updater* updater();
  Status keep_if_finite();
  void replica_changed();
  bool evaluates_others() const;
  Result<const float*> evaluated_params();
  void use_parameters();
  Error fault_error(VirtualRank rank, const Fault& fault) const;
  Error lose_replica(const std::string& why);
  Error lose_replica_by_sum(const std::string& param);

  // These members are constant after construction.
  JobSpec spec_;
  EngineOptions options_;
  const KernelTable& kernels_;
  ParamTable table_;
  std::vector<Bucket> buckets_;

  std::vector<bool> held_;               // [bucket]: its moments are here
  std::vector<FloatRange> held_ranges_;  // the same as ranges
  std::vector<bool> next_;               // [bucket]: has the parameters of the next version
  Parallel parallel_;
  Optimizer optimizer_;
  std::vector<ParamState> states_;
  std::shared_ptr<const ModelUpdates> updates_;  // nullptr: the optimizer is not captured
  std::unique_ptr<WholeUpdates> whole_updates_;  // nullptr: no update needs whole parameters
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<StepRunner> forward_;  // the second model; nullptr: there is none
  DeviceType device_type_;
  Replica replica_;
  Digest frozen_digest_;
  AlignedBuffer averaged_;  // what evaluations use, if it is no array of the replica as a whole
  bool evaluates_average_ = false;  // the device has that in place of the parameters
  Status usable_;                   // an error: the reason why the replica is lost
  bool fetched_ = true;         // false: only the updater has the current parameters and moments
  std::vector<float> squares_;  // [parameter]; used for clipping only
  std::optional<Following> following_;  // the step announced by prefetch()
  std::uint64_t checked_ = 0;  // serial of the last batch whose values were found good; 0: none
};

}  // namespace es::gpu
