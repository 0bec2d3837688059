#pragma once
// One program with everything that a local step needs: parameters, statistics and a mini-batch.
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gpu/base/aligned_buffer.h"
#include "gpu/graph/executor.h"
#include "proto/base/device.h"

namespace es::test {

struct RigOptions {
  CpuClass cpu_class = CpuClass::kScalar;
  std::uint32_t threads = 1;
  std::int64_t bucket_floats = 1000;
};

class StepRig {
 public:
  // All random values are drawn from `seed`: parameters, numbers in [-1, 1), and integers in their
  // range.
  StepRig(gpu::Program program, std::uint64_t seed, const RigOptions& options = {});

  const gpu::Graph& graph() const { return executor->graph(); }
  gpu::Batch batch() const { return {words.data()}; }
  gpu::StepInput input() const { return {stats.data(), batch(), key}; }
  gpu::LocalStep step();
  // Runs a local step; returns the loss.
  float run();
  // The results of an evaluation: the outputs, and then the row losses.
  std::vector<float> evaluate();
  // The bits of all results of a step: loss, gradients, next statistics.
  std::vector<std::uint32_t> step_bits();
  std::vector<std::uint32_t> evaluation_bits();

  std::vector<gpu::Bucket> buckets;
  gpu::Parallel parallel;
  std::unique_ptr<gpu::Executor> executor;
  gpu::AlignedBuffer params, grads;
  std::vector<float> stats, next_stats, words;
  gpu::DropoutKey key;
};

}  // namespace es::test
