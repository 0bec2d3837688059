#pragma once
// A whole job in one process: several workers with their own engines, gradient trees and kernel
// classes train together as the actors make them do, without messages.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/aligned_buffer.h"
#include "gpu/engine.h"
#include "gpu/est/gradient_tree.h"
#include "gpu/est/reduce_tree.h"

namespace es::test {

struct WorkerPlan {
  RankRange range;
  CpuClass cpu_class = CpuClass::kScalar;
};

// Mini-batches as a pure function of (seed, rank, step): uniform pixels in [-1, 1), labels that
// depend on them.
class BatchSource {
 public:
  BatchSource(const JobSpec& spec, gpu::DataShape data) : spec_(spec), data_(data) {}
  // Valid until the next call.
  gpu::Batch make(VirtualRank rank, std::uint64_t step);

 private:
  JobSpec spec_;
  gpu::DataShape data_;
  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
};

class InProcessJob {
 public:
  InProcessJob(const JobSpec& spec, gpu::DataShape data, std::vector<WorkerPlan> workers,
               std::int64_t bucket_bytes = 64 * 1024);

  // One global step; returns the losses by rank.
  std::vector<float> step();

  // Goes on with these workers, from the state of the first of the present ones.
  void replace_workers(std::vector<WorkerPlan> workers);

  gpu::Engine& engine(std::size_t worker) { return *workers_[worker].engine; }
  // Equal on all workers, or the text says which differ.
  std::string params_digest() const;
  std::string state_digest() const;
  // Live gradient buffers: the peak of a worker's tree.
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
  void start_workers(const std::vector<WorkerPlan>& plans);
  std::vector<gpu::AlignedBuffer> reduce();

  JobSpec spec_;
  gpu::DataShape data_;
  std::int64_t bucket_bytes_;
  BatchSource batches_;
  std::vector<Worker> workers_;
  std::vector<std::vector<gpu::TreePart>> parts_;  // by bucket, from all workers
};

}  // namespace es::test
