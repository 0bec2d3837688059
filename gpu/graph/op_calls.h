#pragma once
// What operators pass to their kernels, the same on CPUs and GPUs: arguments that take more than an
// address. (Convolutions and products: dense_op.h.)
#include <array>
#include <cstdint>

#include "gpu/graph/op_run.h"

namespace es::gpu {

using ChainStages = std::array<ChainStage, kChainStepsMax>;
// The stages that run in this mode; returns how many. None: the chain is a copy.
std::int64_t chain_stages(const OpRun& run, ChainStages& stages);

BnForward batch_norm_call(const OpRun& run);
BnBackward batch_norm_grad_call(const OpRun& run);

struct AttentionCall {
  AttentionShape shape;  // without dropout in evaluations
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  AttentionExtras extras;                       // forward only
  const float *probs = nullptr, *dy = nullptr;  // backward only, as what follows
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float* dbias = nullptr;  // nullptr: not wanted
};
AttentionCall attention_call(const OpRun& run);
AttentionCall attention_grad_call(const OpRun& run);

}  // namespace es::gpu
