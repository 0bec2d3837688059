#pragma once
// How the code of element-wise programs (gpu/canonical/program.h) is written and joined. Pure
// functions and values.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/canonical/program.h"
#include "gpu/graph/shape.h"

namespace es::gpu {

// The code and the index space of an operator kProgram. Each instruction of the code writes a
// register of its own.
struct ElementProgram {
  ElementCode code;
  ElementSpace space;
};

class CodeWriter;

// A value of a program that is being written. Operators append instructions; equal instructions are
// appended once.
class Term {
 public:
  Term(CodeWriter& writer, std::int32_t id) : writer_(&writer), id_(id) {}
  CodeWriter& writer() const { return *writer_; }
  std::int32_t id() const { return id_; }

 private:
  CodeWriter* writer_;
  std::int32_t id_;
};

struct WrittenCode {
  ElementCode code;
  std::vector<std::int32_t> inputs;  // [input of the code]: its number in the writer, ascending
};

class CodeWriter {
 public:
  CodeWriter() = default;
  CodeWriter(const CodeWriter&) = delete;
  CodeWriter& operator=(const CodeWriter&) = delete;

  Term input(std::int32_t k);
  Term constant(float value);
  // REQUIRES: as many operands as the instruction has; the others are equal to `a`.
  Term emit(ElementOp op, Term a, Term b, Term c, Term d);
  // Appends other code, whose input k is inputs[k]. Returns its results.
  std::vector<Term> append(const ElementCode& code, std::span<const Term> inputs);

  // Returns the code that computes the results; nothing if it exceeds a limit of program.h. A
  // result that is an input or a constant is copied by an instruction.
  std::optional<WrittenCode> finish(std::span<const Term> results);

 private:
  enum class Kind : std::uint8_t { kInput, kConstant, kInstruction };
  struct Node {
    Kind kind;
    std::int32_t input;  // kInput
    float constant;      // kConstant
    ElementOp op;        // kInstruction, and the operands
    std::int32_t a, b, c, d;
  };
  Term add(const Node& node);
  std::vector<bool> needed_for(std::span<const Term> results) const;

  std::vector<Node> nodes_;
};

inline Term emit(ElementOp op, Term a) {
  return a.writer().emit(op, a, a, a, a);
}
inline Term emit(ElementOp op, Term a, Term b) {
  return a.writer().emit(op, a, b, a, a);
}
inline Term emit(ElementOp op, Term a, Term b, Term c) {
  return a.writer().emit(op, a, b, c, a);
}
inline Term number(Term like, float value) {
  return like.writer().constant(value);
}
inline Term operator+(Term a, Term b) {
  return emit(ElementOp::kAdd, a, b);
}
inline Term operator-(Term a, Term b) {
  return emit(ElementOp::kSub, a, b);
}
inline Term operator*(Term a, Term b) {
  return emit(ElementOp::kMul, a, b);
}
inline Term operator/(Term a, Term b) {
  return emit(ElementOp::kDiv, a, b);
}
inline Term operator-(Term a) {
  return emit(ElementOp::kNegate, a);
}
inline Term operator+(Term a, float b) {
  return a + number(a, b);
}
inline Term operator-(float a, Term b) {
  return number(b, a) - b;
}
inline Term operator*(Term a, float b) {
  return a * number(a, b);
}
inline Term operator/(float a, Term b) {
  return number(b, a) / b;
}

// Returns the same code with the fewest registers by last use; nothing if more than
// kProgramRegisters values are alive at once. An instruction may write the register of an operand.
std::optional<ElementCode> with_few_registers(const ElementCode& code);

// Returns the names of the instructions, for people: "mul, exp".
std::string code_text(const ElementCode& code);

// --- Index spaces.

// The elements of a tensor of this shape, without inputs.
ElementSpace space_of(const TensorShape& shape);
// The strides with which a dense tensor is repeated to `to`: the shapes are aligned at the last
// axis, and axes of extent 1 repeat. REQUIRES: broadcasts(from, to).
std::array<std::int64_t, kProgramRank> repeated_strides(const TensorShape& from,
                                                        const TensorShape& to);
bool broadcasts(const TensorShape& from, const TensorShape& to);
// Returns whether input k is read in the order of the space, every element once.
bool reads_in_order(const ElementSpace& space, std::size_t k);
// The shape to which all operands are broadcast; nothing if they do not fit.
std::optional<TensorShape> broadcast_shape(std::span<const TensorShape> operands);

}  // namespace es::gpu
