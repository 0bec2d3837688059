#pragma once
// Graph: a model as a list of operators over typed tensors of fixed shape, in execution order.
//
// Every tensor is written exactly once, by one operator (single assignment). The memory plan
// decides later which tensors share memory. Values only, immutable once built.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/canonical/kernels.h"
#include "gpu/canonical/move.h"
#include "gpu/graph/functions.h"
#include "gpu/graph/shape.h"
#include "gpu/params/param_table.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

using TensorId = std::int32_t;
constexpr TensorId kNoTensor = -1;

// Integers are ids and labels: they are looked up and moved, but no arithmetic uses them.
enum class ElementType { kF32, kI32, kU8 };

struct Tensor {
  TensorShape shape;
  ElementType type = ElementType::kF32;
  bool needs_grad = false;  // the tensor depends on a parameter
  bool bf16 = false;        // fp32 numbers that are stored as bf16 (precision.h)
};

// The operators. "in" and "out" list the tensors by position. "p" lists the parameters: weight,
// bias. ops/operator.h says everything else about them.
enum class OpKind {
  // Forward.
  kConv2d,      // in x            out y                        p: weight, bias or none
  kLinear,      // in x            out y                        p: weight, bias or none
  kMatmul,      // in a, b         out y: `count` products      also its own gradients
  kBatchNorm,   // in x            out y, mean, istd            p: gamma, beta; `activation`
  kLayerNorm,   // in x            out y, mean, istd            p: gamma, beta; `eps`
  kChain,       // in x, operands  out y: `chain` on x, element by element; also gradients
  kProgram,     // in any          out y: `program`, element by element; also gradients
  kReduce,      // in x            out y: `along` without its reduced axes; also gradients
  kBestIndex,   // in x            out y (i32): the index of the maximum or minimum along a row
  kUniform,     //                out y: random numbers of the operator `random_op`
  kRunningSum,  // in x           out y: running sums over the middle axis of `along`
  kTakeRows,    // in x, ids (i32)   out y: rows of x; also gradients
  kAddRowsAt,   // in x, ids (i32)   out y: sums of the rows of x; also gradients
  kSoftmax,     // in x            out y
  // in q, k, v or one packed tensor; then bias, mask, length, first if `attention_in` has them. out
  // y, stats [n,heads,t,2]
  kAttention,
  // In x [t,n,gates * units], h [n,units] and, of an LSTM, c. out states, gates, kept; see
  // `recurrence`. p: the recurrent weight and its bias.
  kRecurrent,
  kEmbedding,        // in ids (i32)    out y                        p: weight
  kMaxPool,          // in x            out y, argmax (u8)
  kAvgPool,          // in x            out y
  kAdaptiveAvgPool,  // in x            out y
  kGlobalAvgPool,    // in x            out y [n,1,1,c]
  kMove,             // in any          out any: `move`; words that it does not write are +0
  kUpsample2,        // in x            out y: `move` with repeated reads
  kView,             // in x            out y: the same memory under another shape
  kParameter,        //                 out y: the memory of a parameter      p: weight
  kState,            //                 out y: the content of the EST's state
  kSetState,      // in x            out y: x, the EST's next state; its present one in evaluation
  kCrossEntropy,  // in logits, labels (i32)   out probs, row_loss, mean_loss
  // Made by chunk_losses.h. In x, labels and, if they are tensors, the weight and the bias. Out dx,
  // dweight, dbias if there is a bias, logits if they are outputs, row_loss, mean_loss.
  kLinearCrossEntropy,
  kBce,         // in x, targets   out element_loss, mean_loss
  kMse,         // in x, targets   out element_loss, mean_loss
  kYolo,        // in 3 outputs, boxes   out 3 gradients, image_loss, mean_loss
  kScalarLoss,  // in x [1]             out row_loss, mean_loss: all are x
  // Backward operators. The gradient of a parameter is written to the flat gradient array.
  kConvDgrad,      // in dy           out dx                    p: weight
  kConvWgrad,      // in x, dy                                  gradient of weight
  kLinearDgrad,    // in dy           out dx                    p: weight
  kLinearWgrad,    // in x, dy                                  gradient of weight
  kBiasGrad,       // in dy                                     gradient of bias
  kBatchNormGrad,  // in x, dy, mean, istd   out dx             gradients of gamma and beta
  kLayerNormGrad,  // in x, dy, mean, istd   out dx             gradients of gamma and beta
  kColumnSum,      // in dy           out sum over n of dy: the gradient of a repeated row
  kSoftmaxGrad,    // in y, dy        out dx
  // In as kAttention, then stats, dy. out dq, dk, dv or dpacked; and dbias if the bias needs it.
  kAttentionGrad,
  // In gates, kept, states (LSTM: kept again), h (LSTM: c), dstates. Out dx, dh, the carry (LSTM:
  // dc), and of a GRU the gradient of the products.
  kRecurrentGrad,
  kEmbeddingGrad,        // in ids, dy                                gradient of weight
  kMaxPoolGrad,          // in dy, argmax   out dx
  kAvgPoolGrad,          // in dy           out dx
  kAdaptiveAvgPoolGrad,  // in dy           out dx
  kGlobalAvgPoolGrad,    // in dy           out dx
  kUpsample2Grad,        // in dy           out dx
  kCrossEntropyGrad,     // in probs, labels    out dlogits
  kBceGrad,              // in x, targets   out dx
  kMseGrad,              // in x, targets   out dx
  kParameterGrad,        // in dy or none                             gradient of weight: dy or +0
};

constexpr std::size_t kOpKinds = static_cast<std::size_t>(OpKind::kParameterGrad) + 1;

// The running statistics of a batch norm: their offsets in an EST's statistics.
struct BatchNormStats {
  std::int64_t mean = 0;
  std::int64_t variance = 0;
  bool updated = false;  // an earlier batch norm of the step has updated them
};

// One stage of a chain: a ChainStage whose operand is a tensor.
struct ChainStep {
  ChainKind kind = ChainKind::kScale;
  std::int32_t operand = 0;  // index into Op::in; 0: the stage has no operand
  float factor = 1.0F;
  std::int64_t columns = 1;
  Dropout dropout;
};
constexpr std::size_t kChainStepsMax = 16;  // stages of one chain

// The tensor x as [outer][count][inner], of which the middle axis is reduced. `axes` has a bit for
// each axis of x that belongs to the middle one; axes of extent 1 do not count.
struct AlongAxis {
  Reduction kind = Reduction::kSum;  // not kMean
  std::uint32_t axes = 0;
  std::int64_t outer = 1, count = 1, inner = 1;
  bool in_rows = false;  // kReduce: inner is 1, and the order is that of rows
  bool reverse = false;  // kRunningSum: from the last element
};

// `count` independent products of one shape (gemm_batched). The steps are in floats.
struct MatmulShape {
  GemmShape gemm;
  std::int64_t count = 1, a_step = 0, b_step = 0, y_step = 0;
};

// The positions of a kAttention's operands in Op::in; -1: the operator has no such operand.
struct AttentionInputs {
  bool packed = false;  // in[0] contains rows of q, k, v; otherwise they are in[0..2]
  std::int32_t bias = -1, mask = -1, length = -1, first = -1;
  std::int32_t first_extra() const { return packed ? 1 : 3; }
};

// A recurrent layer. Its states [t (+ 1 for an LSTM),n,units] are the hidden states after the steps
// by time, and then the last cell state of an LSTM.
struct Recurrence {
  RecurrentCell cell = RecurrentCell::kLstm;
  bool reverse = false;  // the steps begin with the last time
  std::int64_t gates() const { return cell == RecurrentCell::kLstm ? 4 : 3; }
};

// Weights and biases that are tensors and not parameters: -1: there is none.
struct WeightTensors {
  std::int32_t weight = -1, bias = -1;            // positions in Op::in
  std::int32_t weight_grad = -1, bias_grad = -1;  // positions of their gradients in Op::out
};

struct Op {
  OpKind kind = OpKind::kView;
  std::string name;  // module path, for example "layer1.0.conv1"
  // Results of operators with the same number other than 0 are computed again in the backward pass
  // (recompute.h).
  std::uint32_t region = 0;
  std::vector<TensorId> in;
  std::vector<TensorId> out;
  ParamId weight = kNoParam;  // or gamma
  ParamId bias = kNoParam;    // or beta
  WeightTensors tensors;      // the same two, where they are tensors
  // Attributes. A backward operator has those of its forward operator.
  std::int64_t features = 0;                  // kLinear, kEmbedding: elements of an output row
  ConvShape conv;                             // convolutions
  PoolShape pool;                             // max and average pooling
  AdaptivePoolShape adaptive;                 // adaptive average pooling
  MatmulShape matmul;                         // kMatmul
  bool transpose_b = false;                   // kMatmul: b is [n,h,p,k] and not [n,h,k,p]
  BatchNormStats stats;                       // kBatchNorm
  std::int64_t state = 0;                     // kState, kSetState: as the offsets in `stats`
  Activation activation = Activation::kNone;  // batch norm
  float eps = 0.0F;                           // batch norm and layer norm
  float momentum = 0.0F;                      // batch norm: the part of the batch's statistics
  std::vector<ChainStep> chain;               // kChain
  // kProgram. Before programs are joined (fuse.h) it is the code of one function.
  std::shared_ptr<const ElementProgram> program;
  Function function = Function::kCopy;
  FunctionParameters parameters;
  AlongAxis along;           // kReduce, kBestIndex, kRunningSum
  AttentionShape attention;  // attention
  AttentionInputs attention_in;
  Recurrence recurrence;        // recurrent layers
  bool before_loss = false;     // kLinear: its result goes into a cross entropy (arithmetic.h)
  Move move;                    // kMove, kUpsample2
  YoloShape yolo;               // kYolo
  LossTerms terms;              // kCrossEntropy
  std::uint32_t random_op = 0;  // kUniform: as Dropout::op
};

constexpr float kBatchNormEps = 1e-5F;  // PyTorch's defaults
constexpr float kBatchNormMomentum = 0.1F;

// A tensor whose values belong to the model. It lies outside the arena. An int32 is stored as its
// bits.
struct Constant {
  std::string name;
  TensorId tensor = kNoTensor;
  std::vector<float> words;
};

struct ModelUpdates;  // update_graphs.h

struct Graph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  ParamTable table;
  std::int64_t batch = 1;
  SampleLayout layout;           // the fields of a sample
  std::vector<TensorId> inputs;  // by field of the layout, [batch,...]; they lie outside the arena
  std::vector<Constant> constants;
  std::vector<TensorId> outputs;  // the results of an evaluation; n is a multiple of `batch`
  // The losses of the rows, batch * rows_per_sample numbers, each times its weight. The loss of a
  // sample is the mean of its rows. Rows that take no part (negative labels) contain +0.
  TensorId row_loss = kNoTensor;
  // As many weights; kNoTensor: all are 1. The mean of many samples is the sum of their row losses
  // divided by the sum of these. Integers are labels, with the weight 1, or 0 if they are negative.
  TensorId row_weight = kNoTensor;
  std::int64_t rows_per_sample = 1;
  // A row depends on all samples of the mini-batch, so an incomplete one cannot be filled up.
  bool loss_of_batch = false;
  TensorId mean_loss = kNoTensor;  // [1]
  bool bf16 = false;               // products read bf16, activations are bf16 (precision.h)
  // Of linear layers and matrix products (graph/arithmetic.h).
  Arithmetic arithmetic = Arithmetic::kFp32;
  // The optimizer that the model file brings; nullptr: it is one that the engine has.
  std::shared_ptr<const ModelUpdates> updates;
  // Further programs of the model; Batch::program counts from this graph, which is 0. They have the
  // same table, no updates and no programs.
  std::vector<Graph> programs;
  const TensorShape& shape(TensorId id) const;
};

}  // namespace es::gpu
