#pragma once
// The training workloads that are compared with PyTorch: shapes, batch sizes and optimizer of
// one step (SGD, learning rate 0.01 or less, momentum 0.9; AdamW for language models), with random
// samples.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/base/job_spec.h"
#include "proto/base/sample_layout.h"

namespace es::bench {

struct Workload {
  std::string name;  // "resnet18_cifar32_b32"
  JobSpec spec;      // Model, batch size and optimizer.
  SampleLayout layout;
};

// All workloads in the order of the paper's table, then workloads whose size uses a whole GPU, and
// language models with sequences of three lengths.
std::vector<Workload> workloads();

// One mini-batch of random samples, which depends on the seed only: reals in [-1.7, 1.7) (variance
// 1), integers in the range of the field. Sequences have full length, and each image has two boxes.
void fill_randomly(const Workload& workload, std::uint64_t seed, std::span<float> words);

}  // namespace es::bench
