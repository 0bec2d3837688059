#pragma once
// The arguments that operators pass to their kernels if these are more than addresses. They are the
// same on CPUs and GPUs. (Convolutions and products are in dense_op.h.)
#include <array>
#include <cstdint>

#include "gpu/graph/op_run.h"

namespace es::gpu {

using ChainStages = std::array<ChainStage, kChainStepsMax>;
// Sets the stages that run in this mode and returns their number. 0: the chain is a copy.
std::int64_t chain_stages(const OpRun& run, ChainStages& stages);

BnForward batch_norm_call(const OpRun& run);
BnBackward batch_norm_grad_call(const OpRun& run);

struct AttentionCall {
  AttentionShape shape;  // without dropout in an evaluation
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  AttentionExtras extras;                       // forward pass only
  const float *probs = nullptr, *dy = nullptr;  // backward pass only, like all fields below
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float* dbias = nullptr;  // nullptr: not needed
};
AttentionCall attention_call(const OpRun& run);
AttentionCall attention_grad_call(const OpRun& run);

}  // namespace es::gpu
