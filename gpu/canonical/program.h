#pragma once
// An element-wise program: a short sequence of instructions that computes elements of its outputs
// from elements of its inputs. element_math.h has the meaning of each instruction, and
// docs/reference/operators.md the definition.
#include <array>
#include <cstddef>
#include <cstdint>

namespace es::gpu {
// clang-format off
// The instructions, with the number of their operands. Values are 32-bit words; most instructions
// take them as floats. Truth values are the floats 1 and +0. An integer of 64 bits is two words;
// instructions of such integers take the words of the first one and then those of the second one,
// each time the low word first, and give the word that they name.
#define ES_ELEMENT_OPS(OP) \
  OP(kCopy, 1) \
  OP(kAdd, 2) OP(kSub, 2) OP(kMul, 2) OP(kDiv, 2) OP(kFma, 3) OP(kMax, 2) OP(kMin, 2) \
  OP(kNegate, 1) OP(kAbs, 1) OP(kSign, 1) OP(kSqrt, 1) OP(kFloor, 1) OP(kRound, 1) \
  OP(kExp, 1) OP(kExpm1, 1) OP(kLog, 1) OP(kLog1p, 1) \
  OP(kSin, 1) OP(kCos, 1) OP(kTanh, 1) OP(kSigmoid, 1) \
  OP(kErf, 1) OP(kGelu, 1) OP(kGeluGrad, 1) OP(kPow, 2) OP(kRoundBf16, 1) \
  OP(kEqual, 2) OP(kNotEqual, 2) OP(kLess, 2) OP(kLessEqual, 2) \
  OP(kAnd, 2) OP(kOr, 2) OP(kNot, 1) OP(kSelect, 3) \
  OP(kAddInt, 2) OP(kSubInt, 2) OP(kMulInt, 2) \
  OP(kEqualInt, 2) OP(kLessInt, 2) \
  OP(kFromInt, 1) OP(kToInt, 1) \
  OP(kAndInt, 2) OP(kOrInt, 2) OP(kXorInt, 2) \
  OP(kDivideInt, 2) OP(kRemainderInt, 2) OP(kShiftLeftInt, 2) OP(kShiftRightInt, 2) \
  OP(kAddHigh, 4) OP(kSubHigh, 4) OP(kMulHigh, 4) \
  OP(kDivideLow, 4) OP(kDivideHigh, 4) OP(kRemainderLow, 4) OP(kRemainderHigh, 4) \
  OP(kShiftLeftLow, 4) OP(kShiftLeftHigh, 4) OP(kShiftRightLow, 4) OP(kShiftRightHigh, 4) \
  OP(kLessLong, 4) OP(kFromLong, 2) OP(kToLow, 1) OP(kToHigh, 1) OP(kBeyondLong, 1)
// clang-format on
enum class ElementOp : std::uint8_t {
#define ES_ELEMENT_OP(name, operands) name,
  ES_ELEMENT_OPS(ES_ELEMENT_OP)
#undef ES_ELEMENT_OP
};

constexpr std::uint8_t kElementOperands[] = {
#define ES_ELEMENT_OP(name, operands) operands,
    ES_ELEMENT_OPS(ES_ELEMENT_OP)
#undef ES_ELEMENT_OP
};
constexpr std::size_t kElementOps = sizeof kElementOperands;
constexpr int operands_of(ElementOp op) {
  return kElementOperands[static_cast<std::size_t>(op)];
}

// Whether the instruction is one of those that work on words and have no vector form.
constexpr bool is_word_op(ElementOp op) {
  return op >= ElementOp::kAndInt;
}

constexpr int kProgramRank = 8;
constexpr int kProgramInputs = 16, kProgramConstants = 16, kProgramOutputs = 4;
constexpr int kProgramInstructions = 32, kProgramRegisters = 16;

// Names of operands: registers from 0 on, then inputs, then constants.
constexpr std::uint8_t kFirstInput = kProgramInstructions;
constexpr std::uint8_t kFirstConstant = kFirstInput + kProgramInputs;
constexpr std::uint8_t kOperandNames = kFirstConstant + kProgramConstants;

// Writes register `to`. Operands that the instruction does not have are equal to `a`.
struct Instruction {
  ElementOp op = ElementOp::kCopy;
  std::uint8_t to = 0, a = 0, b = 0, c = 0, d = 0;
  bool operator==(const Instruction&) const = default;
};

// In a graph each instruction writes a register of its own (instruction k writes register k). The
// kernels take programs with at most kProgramRegisters registers (with_few_registers() in
// gpu/graph/element_code.h).
struct ElementCode {
  std::int32_t inputs = 0, constants = 0, instructions = 0, outputs = 0;
  std::array<float, kProgramConstants> constant = {};
  std::array<Instruction, kProgramInstructions> instruction = {};
  std::array<std::uint8_t, kProgramOutputs> result = {};  // [output]: the register with its value
};

// The elements of the outputs as an index space, the last dimension innermost; outputs are dense.
// Element (i0, i1, ...) of input k is in[k][i0 * stride[k][0] + i1 * stride[k][1] + ...]. Stride 0
// repeats an element.
struct ElementSpace {
  std::int32_t rank = 0;
  std::array<std::int64_t, kProgramRank> size = {};
  std::array<std::array<std::int64_t, kProgramRank>, kProgramInputs> stride = {};
};

// Machine code that runs all instructions of a program on one vector of the kernel class after the
// other. in[k] and out[k] have `vectors` times the floats of a vector, side by side; constant[k] is
// constant k. An output may be an input, element for element. tile_code() makes it
// (gpu/machine_code/tile_code.h).
using TileCode = void (*)(const float* const* in, float* const* out, const float* constant,
                          std::int64_t vectors);

}  // namespace es::gpu
