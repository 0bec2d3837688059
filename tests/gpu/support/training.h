#pragma once
// A whole job in one process: several workers with their own engines, gradient trees and kernel
// classes train together in the same way as with actors, without messages.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/base/aligned_buffer.h"
#include "gpu/engine/engine.h"
#include "gpu/est/gradient_tree.h"
#include "gpu/est/reduce_tree.h"
#include "proto/base/model_program.h"
#include "proto/base/philox.h"

namespace es::test {

struct WorkerPlan {
  RankRange range;
  CpuClass cpu_class = CpuClass::kScalar;
  gpu::DeviceKind device = gpu::DeviceKind::kCpu;
  std::uint32_t device_sums = 0;  // The value of EngineOptions::device_sums.
};

// Mini-batches as a pure function of (seed, rank, step): reals uniform in [-1, 1), integers in
// their range, two boxes for each image. If there are an image and a label, the image depends on
// the label.
class BatchSource {
 public:
  BatchSource(const JobSpec& spec, SampleLayout layout) : spec_(spec), layout_(std::move(layout)) {}
  // The result is valid until the next call.
  gpu::Batch make(VirtualRank rank, std::uint64_t step);

 private:
  float word(const SampleField& field, std::uint32_t index, PhiloxCounter random) const;

  JobSpec spec_;
  SampleLayout layout_;
  std::vector<float> words_;
};

// Says which program computes the mini-batch of a rank in a step (Batch::program).
using ChooseProgram = std::function<std::uint32_t(VirtualRank rank, std::uint64_t step)>;

class InProcessJob {
 public:
  InProcessJob(const JobSpec& spec, const SampleLayout& layout, std::vector<WorkerPlan> workers,
               std::int64_t bucket_bytes = 64 * 1024, std::uint32_t threads = 1);
  // The same for the model of a file. The program outlives the object.
  InProcessJob(const JobSpec& spec, const ModelProgram& program, std::vector<WorkerPlan> workers,
               std::int64_t bucket_bytes = 64 * 1024, std::uint32_t threads = 1,
               ChooseProgram choose = {});

  // One global step; returns the losses by rank.
  std::vector<float> step();

  // From now on divides the moments among the workers: the worker first + b (modulo their number)
  // and the next one hold those of bucket b. Each gets what it does not hold yet from one that
  // does. Workers then update in parts. replace_workers() needs workers that hold all.
  void divide_moments(std::size_t first);
  // Whether both jobs have the same version, parameters and contexts at all workers, and the same
  // moments wherever both hold them.
  bool equals(InProcessJob& other);

  // Continues with these workers, from the state of the first one of the present workers.
  void replace_workers(std::vector<WorkerPlan> workers);

  gpu::Engine& engine(std::size_t worker) { return *workers_[worker].engine; }
  // Returns the state of all workers if it is equal, or a text about the differences.
  std::string params_digest() const;
  std::string state_digest() const;
  // The number of live gradient buffers: the peak of the tree of a worker.
  std::uint32_t peak_live_buffers(std::size_t worker) const {
    return workers_[worker].tree->peak_live_buffers();
  }

 private:
  struct Worker {
    RankRange range;
    std::unique_ptr<gpu::Engine> engine;
    std::vector<gpu::AlignedBuffer> slots;
    std::unique_ptr<gpu::GradientTree> tree;
  };
  void add_part(Worker& worker, const gpu::PartReady& ready);
  void start_workers(const std::vector<WorkerPlan>& plans);
  std::vector<const float*> reduce();
  void reduce_bucket(std::vector<gpu::GradientPart>& parts, gpu::AlignedBuffer& out,
                     const gpu::Engine& owner);

  bool is_holder(std::size_t worker, std::size_t bucket) const;
  std::vector<float> squares_of(std::span<const float* const> sums);
  void exchange_params();
  void update(const std::vector<const float*>& sums, const std::vector<gpu::EstContext>& next);
  void update_divided(const std::vector<const float*>& sums,
                      const std::vector<gpu::EstContext>& next);

  gpu::Graph model() const;

  JobSpec spec_;
  SampleLayout layout_;                    // of a model that is built in
  const ModelProgram* program_ = nullptr;  // nullptr: the model of the spec
  std::int64_t bucket_bytes_;
  std::uint32_t threads_;
  ChooseProgram choose_;              // empty: the model itself
  std::vector<BatchSource> batches_;  // [program]
  std::vector<Worker> workers_;
  std::vector<std::vector<gpu::GradientPart>> parts_;  // By bucket, from all workers.
  std::vector<gpu::AlignedBuffer> reduced_;            // Of buckets with several parts.
  std::optional<std::size_t> first_holder_;            // of bucket 0, if the moments are divided
};

}  // namespace es::test
