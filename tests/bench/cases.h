#pragma once
// The cases of the kernels benchmark. Each adds its lines to the report.
#include "tests/bench/report.h"

namespace es::bench {

constexpr double kSecondsPerDuel = 0.3;

// Convolutions of the models that EasyScale trains: forward pass and both gradients.
void conv_cases(const gpu::KernelTable& table, Report& report);
// Matrix products, linear layers.
void gemm_cases(const gpu::KernelTable& table, Report& report);
// Batch norm and pooling.
void memory_cases(const gpu::KernelTable& table, Report& report);

}  // namespace es::bench
