#pragma once
// Graph: a model as a list of typed operators over tensors of fixed shape, in execution order.
//
// Every tensor is written by exactly one operator, once (single assignment); sharing of memory is
// decided later, by the memory plan. Values only, immutable once built.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/canonical/kernels.h"
#include "gpu/params/param_table.h"

namespace es::gpu {

using TensorId = std::int32_t;
constexpr TensorId kNoTensor = -1;

// NHWC; vectors and matrices have h = w = 1: [n][c].
struct TensorShape {
  std::int64_t n = 1, h = 1, w = 1, c = 1;
  std::int64_t count() const { return n * h * w * c; }
  std::int64_t rows() const { return n * h * w; }
  bool operator==(const TensorShape&) const = default;
};

std::string shape_text(const TensorShape& shape);  // "[32,28,28,64]"

enum class ElementType { kF32, kU8 };

struct Tensor {
  TensorShape shape;
  ElementType type = ElementType::kF32;
  bool needs_grad = false;  // depends on a parameter
};

// Operators. "in" and "out" list the tensors by position; p: weight, bias = parameters.
enum class OpKind {
  // Forward.
  kConv2d,         // in x           out y                          p: weight, bias or none
  kLinear,         // in x           out y                          p: weight, bias or none
  kBatchNorm,      // in x           out y, mean, istd              p: gamma, beta; `relu` fused
  kRelu,           // in x           out y
  kAdd,            // in a, b        out y                          `relu` fused
  kMaxPool,        // in x           out y, argmax (u8)
  kAvgPool,        // in x           out y
  kGlobalAvgPool,  // in x           out y [n,1,1,c]
  kView,           // in x           out y: the same memory under another shape
  kSoftmaxXent,    // in logits      out probs, row_loss [n], mean_loss [1]; reads the labels
  // Backward. The gradient of p goes straight to the flat gradient array.
  kConvDgrad,          // in dy           out dx                    p: weight
  kConvWgrad,          // in x, dy                                  gradient of weight
  kLinearDgrad,        // in dy           out dx                    p: weight
  kLinearWgrad,        // in x, dy                                  gradient of weight
  kBiasGrad,           // in dy                                     gradient of bias
  kBatchNormGrad,      // in x, dy, mean, istd   out dx             gradients of gamma and beta
  kReluGrad,           // in y, dy        out dx                    also of a fused add
  kMaxPoolGrad,        // in dy, argmax   out dx
  kAvgPoolGrad,        // in dy           out dx
  kGlobalAvgPoolGrad,  // in dy           out dx
  kSoftmaxXentGrad,    // in probs        out dlogits; reads the labels
};

const char* op_name(OpKind kind);  // "conv2d"

// The running statistics of one batch norm: offsets into an EST's statistics.
struct BatchNormStats {
  std::int64_t mean = 0;
  std::int64_t variance = 0;
};

struct Op {
  OpKind kind = OpKind::kView;
  std::string name;  // module path, "layer1.0.conv1"
  std::vector<TensorId> in;
  std::vector<TensorId> out;
  ParamId weight = kNoParam;  // or gamma
  ParamId bias = kNoParam;    // or beta
  ConvShape conv;             // convolutions
  PoolShape pool;             // max and average pooling
  BatchNormStats stats;       // kBatchNorm
  bool relu = false;          // kBatchNorm, kBatchNormGrad, kAdd
};

constexpr float kBatchNormEps = 1e-5F;  // PyTorch's defaults
constexpr float kBatchNormMomentum = 0.1F;

struct Graph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  ParamTable table;
  TensorId input = kNoTensor;      // images [batch,h,w,c]; outside the arena
  TensorId logits = kNoTensor;     // [batch,1,1,classes]
  TensorId row_loss = kNoTensor;   // [batch]
  TensorId mean_loss = kNoTensor;  // [1]
  const TensorShape& shape(TensorId id) const;
};

}  // namespace es::gpu
