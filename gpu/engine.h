#pragma once
// Engine: one worker's training engine. It holds a model for one kernel class and the replica, runs
// local steps, applies updates and evaluates. Start reading here; the parts are in the sub-folders.
//
// A global step, as a worker drives it:
//   for each rank of the worker, ascending:
//     float* grad = tree.begin_rank(rank);
//     engine.local_step(rank, batch, next_cursor, grad, next[rank],
//                       [&](std::uint32_t bucket) { tree.bucket_ready(bucket); });
//   ... reduce_tree() per bucket by its owner, contexts gathered from all workers ...
//   engine.apply_update(reduced, next);     // version + 1
//   tree.release_all();
//
// Threads: an engine belongs to one thread at a time. Engines share nothing.
// Memory: create(), init_replica() and install() allocate what is large; steps and evaluation reuse
// it.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/batch.h"
#include "gpu/canonical/kernels.h"
#include "gpu/est/est_context.h"
#include "gpu/graph/executor.h"
#include "gpu/params/buckets.h"
#include "gpu/params/param_table.h"
#include "gpu/replica.h"
#include "proto/base/digest.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

// Shape of one sample.
struct DataShape {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;
};

struct EngineOptions {
  CpuClass cpu_class = CpuClass::kScalar;
  std::uint64_t total_steps = 0;        // of the whole job; the cosine schedule needs it
  std::int64_t bucket_bytes = 4 << 20;  // target size of a gradient bucket
};

// Sums over evaluated samples. The fp64 sum depends on the order of additions: add totals of equal
// pieces in sample order when work is divided.
struct EvalTotals {
  std::uint64_t samples = 0;
  std::uint64_t correct = 0;
  double loss_sum = 0.0;
  double accuracy() const { return samples == 0 ? 0.0 : double(correct) / double(samples); }
  double mean_loss() const { return samples == 0 ? 0.0 : loss_sum / double(samples); }
};

// What the engine allocates, bytes. Only gradient_slot (one per live buffer) and context (one per
// EST) are multiplied by anything that depends on the number of ESTs.
struct MemoryUse {
  std::int64_t params = 0;           // parameters; momentum takes as much again
  std::int64_t packed = 0;           // packed convolution weights
  std::int64_t arena = 0;            // activations and their gradients, by lifetime
  std::int64_t arena_live_peak = 0;  // most bytes live at once: the lower bound of the arena
  std::int64_t workspace = 0;        // kernel scratch, shared by all operators
  std::int64_t gradient_slot = 0;
  std::int64_t context = 0;  // statistics of one EST
};

struct OpDescription {
  std::string name;    // module path, "layer1.0.conv1"
  std::string kind;    // "conv2d"
  std::string kernel;  // entries of the kernel table, forward and backward, "conv_fwd, ..."
  std::string output;  // "[32,28,28,64]"
  std::int64_t parameters = 0;
};

// For `esctl inspect`.
struct EngineDescription {
  std::string model;
  std::string kernel_class;  // "cpu-avx512"
  std::vector<OpDescription> ops;
  std::int64_t parameters = 0;
  std::size_t buckets = 0;
  MemoryUse memory;
};

class Engine {
 public:
  using OnBucketReady = Executor::OnBucketReady;  // called with buckets 0, 1, 2, ...

  // Builds model, backward pass, memory plan and buckets. The replica is empty at first.
  // Error (usage): a model that does not fit the data's shape, a class that this processor cannot
  // execute, the cosine schedule without total_steps.
  static Result<std::unique_ptr<Engine>> create(const JobSpec& spec, DataShape data,
                                                const EngineOptions& options);

  // --- Constant after create().
  const ParamTable& table() const;
  const std::vector<Bucket>& buckets() const;
  const KernelTable& kernels() const;
  MemoryUse memory_use() const;
  EngineDescription describe() const;
  // The learning rate that global step t (0-based) uses.
  float learning_rate(std::uint64_t step) const;

  // --- The replica.
  // Version 0, a pure function of the spec.
  void init_replica();
  // Takes over a replica (from a checkpoint or another worker).
  // Error (failure): sizes, ranks or versions that do not fit this model; nothing changes then.
  Status install(Replica replica);
  const Replica& replica() const;
  Digest params_digest() const;
  Digest state_digest() const;

  // --- Training. REQUIRES of all: init_replica() or install() came before.
  // Forward and backward of one EST on spec.batch_size samples, from its context of the current
  // version. Writes the gradient of
  // the mini-batch mean (grad_out: total_floats(), padding included) and the context of the next
  // version with `next_cursor`; returns the loss. Changes nothing else: same arguments, same bits.
  // Error (failure): a label out of range; a loss that is not finite (names rank, step and the
  // first operator with a non-finite output). No bucket is reported then.
  Result<float> local_step(VirtualRank rank, const Batch& batch, SamplerCursor next_cursor,
                           float* grad_out, EstContext& next, const OnBucketReady& on_bucket_ready);

  // reduced[b]: the floats of bucket b, summed over all ranks (not yet divided by max_p);
  // next: the contexts of all ranks in rank order. Afterwards the version is one higher.
  // Error (failure): a gradient that is not finite (names the parameter and step), contexts of
  // another version; nothing changes then.
  Status apply_update(std::span<const float* const> reduced, std::vector<EstContext> next);

  // Evaluates `count` samples (any number) with the statistics of rank 0. Each sample's result is
  // independent of the batch that it is evaluated in. Error (failure): a label out of range.
  Result<EvalTotals> evaluate(const Batch& samples, std::uint64_t count);

 private:
  Engine(const JobSpec& spec, const EngineOptions& options, Graph graph);
  Status check_labels(const std::int32_t* labels, std::uint64_t count) const;
  Status check_contexts(const std::vector<EstContext>& contexts, Version version) const;
  Status check_gradients(std::span<const float* const> reduced) const;
  Error non_finite_error(VirtualRank rank, const LocalStep& step);

  // Constant after construction.
  JobSpec spec_;
  EngineOptions options_;
  const KernelTable& kernels_;
  ParamTable table_;
  std::vector<Bucket> buckets_;

  std::unique_ptr<Executor> executor_;
  Replica replica_;
  AlignedBuffer eval_images_;  // an incomplete last batch of an evaluation, filled up with zeros
  std::vector<std::int32_t> eval_labels_;
};

}  // namespace es::gpu
