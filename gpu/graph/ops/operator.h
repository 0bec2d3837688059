#pragma once
// The table of operators: everything that the engine knows about an operator is one entry.
//
// Each file of this folder has the entries of one topic. A new operator is a name in OpKind
// (graph.h), an entry here, and its kernels (gpu/canonical/kernels.h, device_kernels.h). Builder,
// differentiation, memory plan, executors and profiles read the table and name no operator, except
// for the passes that join chains and moves (fuse.h).
//
// A generic lambda in an entry serves CPUs and devices alike: it gets an OnCpu or an OnDevice, and
// calls on(on.kernels.NAME, arguments...). OpRun divides the work among the threads of a CPU; on a
// device every division has one part, because a device kernel runs a whole operator.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/canonical/device_kernels.h"
#include "gpu/graph/op_run.h"
#include "proto/base/result.h"

namespace es::gpu {

class Gradients;  // gradients.h
using cuda::Bf16Arrays;

// The kernels of a CPU class. A call runs the kernel.
struct OnCpu {
  const KernelTable& kernels;
  const DropoutKey& key;

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), const Arguments&... arguments) const {
    kernel(arguments...);
  }
};

// The kernels of a device. A call queues the kernel.
struct OnDevice {
  const cuda::DeviceKernels& kernels;
  cuda::Stream stream;
  const DropoutKey* key;  // in device memory

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(cuda::Stream, Parameters...),
                  const Arguments&... arguments) const {
    kernel(stream, arguments...);
  }
};

// Floats of scratch memory that an operator needs, in every mode.
struct Workspace {
  using Cpu = std::size_t (*)(const KernelTable&, const OpShapes&, int threads);
  using Device = std::size_t (*)(const cuda::DeviceKernels&, const OpShapes&);

  constexpr Workspace() = default;  // none
  constexpr Workspace(Cpu cpu, Device device) : cpu(cpu), device(device) {}
  // `both` is a lambda without captures that takes either table of kernels.
  template <class Both>
  constexpr Workspace(Both) {
    cpu = [](const KernelTable& k, const OpShapes& op, int) { return Both{}(k, op); };
    device = [](const cuda::DeviceKernels& k, const OpShapes& op) { return Both{}(k, op); };
  }

  Cpu cpu = nullptr;
  Device device = nullptr;
};

// How the operator runs on a CPU, and how it is queued on a device. The gradient of a parameter is
// written together with its padding (+0; not on a device). The bits do not depend on the number of
// threads, because work is divided only where no sum is divided.
struct Run {
  using Cpu = void (*)(const OnCpu&, const OpRun&);
  using Device = void (*)(const OnDevice&, const OpRun&);

  constexpr Run() = default;
  constexpr Run(Cpu cpu, Device device) : cpu(cpu), device(device) {}
  // `both` is a lambda without captures that takes an OnCpu or an OnDevice.
  template <class Both>
  constexpr Run(Both both) : cpu(both), device(both) {}

  Cpu cpu = nullptr;
  Device device = nullptr;
};

// The operands of a convolution or product in mathematical order: convolution forward (x, weights),
// data gradient (dy, weights), weight gradient (x, dy), product (A, B).
struct DenseCall {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;  // forward pass only; nullptr: no bias
  float* out = nullptr;
};

// What a library needs to run a convolution or a product (dense_op.h).
struct Dense {
  std::optional<ConvPass> conv;                       // a convolution: which of its passes
  MatmulShape (*product)(const OpShapes&) = nullptr;  // a product or several of one shape
  // Returns the operands. Sets the padding of a weight gradient to +0.
  DenseCall (*call)(const OpRun&) = nullptr;
  bool takes_bias = false;  // a bias is added if the operator has the parameter
};

// What the builder requires of an operator's inputs.
enum class Inputs {
  kAny,      // the shape rule checks them
  kNumbers,  // fp32
  kDense,    // fp32, and not a flattened image
  kImages,   // as kDense, and [n,h,w,c]
};

// How the results of a forward operator are stored in a graph with bf16 (precision.h).
enum class Stored {
  kLikeInputs,  // as bf16 if an input is
  kFirstBf16,   // the first one as bf16
  kF32,
};

using OutputTensors = Result<std::vector<Tensor>>;

struct Operator {
  OpKind kind;
  const char* name;  // for people, for example "conv2d"
  // The kernels, of the table or composed in phases.h, that run the operator and its gradients, for
  // example "conv_fwd, conv_wgrad".
  const char* kernels = "none";
  // What the operator does beyond its kind, for example "add, relu" for a chain; nullptr: nothing.
  std::string (*detail)(const Op&) = nullptr;

  Inputs inputs = Inputs::kAny;
  std::size_t inputs_checked = kAllInputs;  // `inputs` is required of this many of the first ones
  // The shape rule. Returns the outputs, and completes the attributes that follow from the shapes
  // of the inputs. Error (usage): what does not fit. nullptr: the caller states the outputs (moves,
  // views and gradients).
  OutputTensors (*outputs)(const Graph&, Op&) = nullptr;

  Stored stored = Stored::kLikeInputs;
  // Returns whether the kernels read an input that is stored as bf16; nullptr: they read fp32 only.
  bool (*reads_bf16)(const Op&, std::size_t input) = nullptr;
  bool writes_bf16 = false;  // the kernels write outputs that are stored as bf16
  // Returns the inputs that are factors of products, beside the weight; nullptr: none.
  std::vector<std::size_t> (*factors)(const Op&) = nullptr;
  // The operator reads these inputs as they are stored: the kernels of a CPU convert them where
  // they are read, and a device before they run (dense_op.h).
  bool converts_factors = false;
  // The weight is a factor, too. It is rounded before the operator; or in blocks by the operator
  // itself, and as a whole for a library (dense_op.h).
  bool multiplies_weight = false, rounds_weight = false;

  // Appends the operators that compute the gradients. It is called if an output has a gradient, and
  // for a loss. nullptr: the operator is not differentiated (gradients).
  void (*gradient)(Gradients&, const Op&) = nullptr;
  bool is_loss = false;  // its last outputs are the losses of the rows and their mean
  // Returns the output that only an evaluation writes; kNoTensor or nullptr: all are written. In an
  // evaluation, an operator with such an output writes only what is read there.
  TensorId (*evaluation_output)(const Op&) = nullptr;
  bool writes_weight_grad = false, writes_bias_grad = false;  // of op.weight, of op.bias
  bool writes_stats = false;  // it writes the next running statistics at op.stats

  bool is_view = false;    // the output is the memory of the input, and nothing is executed
  bool in_params = false;  // the output is the memory of op.weight, and nothing is executed
  // Returns the inputs whose memory an output may take over, the best one first. The kernel reads
  // and writes these element for element. The memory plan checks that nothing reads them later.
  // nullptr: none.
  std::vector<TensorId> (*in_place)(const Op&) = nullptr;
  std::size_t in_place_output = 0;  // the output

  Workspace workspace;
  Run run;
  Dense dense;

  static constexpr std::size_t kAllInputs = static_cast<std::size_t>(-1);
};

// Returns the entry of a kind.
const Operator& op_def(OpKind kind);

// The entries of each file.
std::span<const Operator> attention_operators();
std::span<const Operator> conv_operators();
std::span<const Operator> elementwise_operators();
std::span<const Operator> embedding_operators();
std::span<const Operator> linear_loss_operators();
std::span<const Operator> loss_operators();
std::span<const Operator> move_operators();
std::span<const Operator> norm_operators();
std::span<const Operator> parameter_operators();
std::span<const Operator> pool_operators();
std::span<const Operator> product_operators();
std::span<const Operator> program_operators();
std::span<const Operator> recurrent_operators();
std::span<const Operator> reduce_operators();
std::span<const Operator> state_operators();

inline const char* op_name(OpKind kind) {
  return op_def(kind).name;
}
inline std::string op_detail(const Op& op) {
  const auto detail = op_def(op.kind).detail;
  return detail == nullptr ? "" : detail(op);
}
// Returns the output that only an evaluation writes; kNoTensor: there is none.
inline TensorId evaluation_output(const Op& op) {
  const auto output = op_def(op.kind).evaluation_output;
  return output == nullptr ? kNoTensor : output(op);
}
inline std::vector<TensorId> in_place_inputs(const Op& op) {
  const auto in_place = op_def(op.kind).in_place;
  return in_place == nullptr ? std::vector<TensorId>() : in_place(op);
}

// Returns the floats of scratch memory that the operator needs with this number of threads, or on a
// device.
std::size_t op_workspace_floats(const KernelTable& kernels, const OpShapes& op, int threads);
std::size_t op_workspace_floats(const cuda::DeviceKernels& kernels, const OpShapes& op);

// Copies a tensor, with all threads of the CPU. Nothing is done if both addresses are equal.
void copy_words(const OnCpu& on, const OpRun& run, std::int64_t count, const float* from,
                float* to);
void copy_words(const OnDevice& on, const OpRun& run, std::int64_t count, const float* from,
                float* to);

// Executes the operator.
void run_op(const KernelTable& kernels, const OpRun& run);
// Queues the operator. All pointers of run.buffers are to device memory. REQUIRES:
// RunBuffers::clear_padding is false, and there is no RunBuffers::parallel.
void queue_op(const OnDevice& on, const OpRun& run);

}  // namespace es::gpu
