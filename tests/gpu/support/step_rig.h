#pragma once
// One program with everything that a local step of it needs: parameters, statistics, a mini-batch.
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
  // Everything random is drawn from `seed`: parameters, numbers in [-1, 1), integers in their
  // range.
  StepRig(gpu::Program program, std::uint64_t seed, const RigOptions& options = {});

  const gpu::Graph& graph() const { return executor->graph(); }
  gpu::Batch batch() const { return {words.data()}; }
  gpu::LocalStep step();
  // Runs a local step; returns the loss.
  float run();
  // What an evaluation returns: the outputs and the row losses, one after the other.
  std::vector<float> evaluate();
  // Bits of everything that a step leaves: loss, gradients, next statistics.
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
