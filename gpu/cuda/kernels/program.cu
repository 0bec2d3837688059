// Element-wise programs. Every thread computes one element: it interprets the instructions, which
// are the same for all threads, and keeps its registers and inputs in shared memory.
#include "gpu/canonical/element_math.h"
#include "gpu/canonical/space_math.h"
#include "gpu/cuda/kernels/numbers.h"
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// Programs without integers of 64 bits have a kernel without divisions of these, which would need
// more registers than all other instructions.
template <bool kWords>
struct RunProgram {
  static constexpr unsigned kThreads = 128;
  // A value for each register and input of each thread. No thread reads those of another one.
  struct Shared {
    float value[kProgramRegisters + kProgramInputs][kThreads];
  };
  std::uint32_t n;
  std::int32_t rank, inputs, outputs, instructions;
  std::uint32_t size[kProgramRank];  // the first dimension is the innermost
  std::int64_t stride[kProgramInputs][kProgramRank];
  const float* in[kProgramInputs];
  float* out[kProgramOutputs];
  Bf16Arrays bf16;
  float constant[kProgramConstants];
  Instruction instruction[kProgramInstructions];
  std::uint8_t result[kProgramOutputs];

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= n) return;
    const unsigned thread = block.thread();
    read_inputs(static_cast<std::uint32_t>(i), shared, thread);
    for (std::int32_t k = 0; k < instructions; ++k) {
      const Instruction step = instruction[k];
      const float a = operand(step.a, shared, thread), b = operand(step.b, shared, thread),
                  c = operand(step.c, shared, thread);
      float y = 0.0f;
      with_element_op(step.op, [&](auto op) {
        constexpr ElementOp kOp = decltype(op)::value;
        if constexpr (kWords)
          y = one_element<kOp>(a, b, c, operand(step.d, shared, thread));
        else if constexpr (!is_word_op(kOp))
          y = element<kOp>(a, b, c);
      });
      shared.value[step.to][thread] = y;
    }
    for (std::int32_t k = 0; k < outputs; ++k) {
      set_number(out[k], bf16.writes(k), i, shared.value[result[k]][thread]);
    }
  }

  ES_HD void read_inputs(std::uint32_t element, Shared& shared, unsigned thread) const {
    for (std::int32_t k = 0; k < inputs; ++k) {
      std::uint32_t rest = element;
      std::int64_t offset = 0;
      for (std::int32_t d = 0; d < rank; ++d) {
        // A stride of 0 repeats an input along the dimension.
        offset += rest % size[d] * stride[k][d];
        rest /= size[d];
      }
      shared.value[kProgramRegisters + k][thread] = number_at(in[k], bf16.reads(k), offset);
    }
  }

  ES_HD float operand(std::uint8_t name, const Shared& shared, unsigned thread) const {
    if (name >= kFirstConstant) return constant[name - kFirstConstant];
    const int at = name >= kFirstInput ? kProgramRegisters + name - kFirstInput : name;
    return shared.value[at][thread];
  }
};

template <bool kWords>
void run(Stream stream, const ElementCode& code, const ElementSpace& space, const Bf16Arrays& bf16,
         const float* const* in, float* const* out, std::int64_t n) {
  // Dimensions that are contiguous in all inputs are joined first, since each one costs two
  // divisions.
  const ElementSpace s = joined(space, code.inputs);
  RunProgram<kWords> kernel{};
  kernel.n = static_cast<std::uint32_t>(numbered(n));
  kernel.bf16 = bf16;
  kernel.rank = s.rank;
  kernel.inputs = code.inputs;
  kernel.outputs = code.outputs;
  kernel.instructions = code.instructions;
  for (std::int32_t d = 0; d < s.rank; ++d) {
    const std::int32_t from = s.rank - 1 - d;
    kernel.size[d] = static_cast<std::uint32_t>(s.size[from]);
    for (std::int32_t k = 0; k < code.inputs; ++k) kernel.stride[k][d] = s.stride[k][from];
  }
  for (std::int32_t k = 0; k < code.inputs; ++k) kernel.in[k] = in[k];
  for (std::int32_t k = 0; k < code.outputs; ++k) {
    kernel.out[k] = out[k];
    kernel.result[k] = code.result[k];
  }
  for (std::int32_t k = 0; k < code.constants; ++k) kernel.constant[k] = code.constant[k];
  for (std::int32_t k = 0; k < code.instructions; ++k) kernel.instruction[k] = code.instruction[k];
  launch(stream, {.x = blocks_for<RunProgram<kWords>>(n)}, kernel);
}

void program(Stream stream, const ElementCode& code, const ElementSpace& space,
             const Bf16Arrays& bf16, const float* const* in, float* const* out, std::int64_t n) {
  bool words = false;
  for (std::int32_t k = 0; k < code.instructions; ++k)
    words = words || is_word_op(code.instruction[static_cast<std::size_t>(k)].op);
  (words ? run<true> : run<false>)(stream, code, space, bf16, in, out, n);
}

}  // namespace

void add_program(DeviceKernels& kernels) {
  kernels.program = program;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
