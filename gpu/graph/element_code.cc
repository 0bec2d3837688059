#include "gpu/graph/element_code.h"

#include <algorithm>
#include <bit>
#include <cctype>

#include "proto/base/check.h"

namespace es::gpu {

// Equal nodes are one node, so code that is joined from several programs computes a common value
// once. Constants are compared as bits, because +0 and -0 are equal as floats and give different
// results.
Term CodeWriter::add(const Node& node) {
  const auto same = [&](const Node& other) {
    return other.kind == node.kind && other.input == node.input &&
           std::bit_cast<std::uint32_t>(other.constant) ==
               std::bit_cast<std::uint32_t>(node.constant) &&
           other.op == node.op && other.a == node.a && other.b == node.b && other.c == node.c &&
           other.d == node.d;
  };
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), same);
  const auto id = static_cast<std::int32_t>(found - nodes_.begin());
  if (found == nodes_.end()) nodes_.push_back(node);
  return {*this, id};
}

Term CodeWriter::input(std::int32_t k) {
  return add({Kind::kInput, k, 0.0F, ElementOp::kCopy, 0, 0, 0, 0});
}

Term CodeWriter::constant(float value) {
  return add({Kind::kConstant, 0, value, ElementOp::kCopy, 0, 0, 0, 0});
}

Term CodeWriter::emit(ElementOp op, Term a, Term b, Term c, Term d) {
  return add({Kind::kInstruction, 0, 0.0F, op, a.id(), b.id(), c.id(), d.id()});
}

std::vector<Term> CodeWriter::append(const ElementCode& code, std::span<const Term> inputs) {
  std::vector<Term> registers;
  // An operand's name says by its range what it is: a register, an input or a constant (program.h).
  // A register is the result of an instruction that was appended before.
  const auto operand = [&](std::uint8_t name) {
    if (name < kFirstInput) return registers[name];
    if (name < kFirstConstant) return inputs[name - kFirstInput];
    return constant(code.constant[name - kFirstConstant]);
  };
  for (std::int32_t i = 0; i < code.instructions; ++i) {
    const Instruction& step = code.instruction[static_cast<std::size_t>(i)];
    // Instruction i must write register i, which is so before with_few_registers() renames them.
    ES_CHECK(step.to == i);
    const Term a = operand(step.a), b = operand(step.b), c = operand(step.c), d = operand(step.d);
    // A copy only gives a result an instruction of its own (finish), so it vanishes when the code
    // becomes a part of other code.
    registers.push_back(step.op == ElementOp::kCopy ? a : emit(step.op, a, b, c, d));
  }
  std::vector<Term> results;
  for (std::int32_t k = 0; k < code.outputs; ++k)
    results.push_back(registers[code.result[static_cast<std::size_t>(k)]]);
  return results;
}

// Operands come before the instruction that reads them, so one pass from the last node to the first
// finds everything that the results need.
std::vector<bool> CodeWriter::needed_for(std::span<const Term> results) const {
  std::vector<bool> needed(nodes_.size(), false);
  for (const Term& r : results) needed[static_cast<std::size_t>(r.id())] = true;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    if (!needed[i] || nodes_[i].kind != Kind::kInstruction) continue;
    for (const std::int32_t id : {nodes_[i].a, nodes_[i].b, nodes_[i].c, nodes_[i].d})
      needed[static_cast<std::size_t>(id)] = true;
  }
  return needed;
}

std::optional<WrittenCode> CodeWriter::finish(std::span<const Term> results) {
  // ElementCode::result names registers, and inputs and constants are in none, so they need an
  // instruction that copies them.
  std::vector<Term> computed;
  for (const Term& r : results)
    computed.push_back(nodes_[static_cast<std::size_t>(r.id())].kind == Kind::kInstruction
                           ? r
                           : emit(ElementOp::kCopy, r, r, r, r));
  const std::vector<bool> needed = needed_for(computed);
  WrittenCode written;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (needed[i] && nodes_[i].kind == Kind::kInput) written.inputs.push_back(nodes_[i].input);
  std::vector<std::int32_t>& inputs = written.inputs;
  // Ascending, so that the order of the operator's inputs does not depend on which function
  // mentions which operand first.
  std::sort(inputs.begin(), inputs.end());
  if (inputs.size() > kProgramInputs || results.size() > kProgramOutputs) return std::nullopt;
  ElementCode& code = written.code;
  code.inputs = static_cast<std::int32_t>(inputs.size());
  std::vector<std::uint8_t> name(nodes_.size(), 0);  // [node]
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!needed[i]) continue;
    const Node& node = nodes_[i];
    const auto at = [&](std::int32_t id) { return name[static_cast<std::size_t>(id)]; };
    if (node.kind == Kind::kInput) {
      const auto place = std::lower_bound(inputs.begin(), inputs.end(), node.input);
      name[i] = static_cast<std::uint8_t>(kFirstInput + (place - inputs.begin()));
    } else if (node.kind == Kind::kConstant) {
      if (code.constants == kProgramConstants) return std::nullopt;
      name[i] = static_cast<std::uint8_t>(kFirstConstant + code.constants);
      code.constant[static_cast<std::size_t>(code.constants++)] = node.constant;
    } else {
      if (code.instructions == kProgramInstructions) return std::nullopt;
      name[i] = static_cast<std::uint8_t>(code.instructions);
      code.instruction[static_cast<std::size_t>(code.instructions++)] = {
          node.op, name[i], at(node.a), at(node.b), at(node.c), at(node.d)};
    }
  }
  for (const Term& r : computed)
    code.result[static_cast<std::size_t>(code.outputs++)] = name[static_cast<std::size_t>(r.id())];
  return written;
}

// Instructions stay in their order. A register is free again after the last instruction that reads
// its value.
std::optional<ElementCode> with_few_registers(const ElementCode& code) {
  std::array<std::int32_t, kProgramInstructions> last_use = {};
  for (std::int32_t i = 0; i < code.instructions; ++i) {
    const Instruction& step = code.instruction[static_cast<std::size_t>(i)];
    for (const std::uint8_t name : {step.a, step.b, step.c, step.d})
      if (name < kFirstInput) last_use[name] = i;
  }
  for (std::int32_t k = 0; k < code.outputs; ++k)
    // A result is read after the last instruction, so its register is never free.
    last_use[code.result[static_cast<std::size_t>(k)]] = code.instructions;
  ElementCode few = code;
  std::array<std::uint8_t, kProgramInstructions> place = {};
  std::array<bool, kProgramRegisters> taken = {};
  for (std::int32_t i = 0; i < code.instructions; ++i) {
    Instruction& step = few.instruction[static_cast<std::size_t>(i)];
    for (std::uint8_t* name : {&step.a, &step.b, &step.c, &step.d}) {
      if (*name >= kFirstInput) continue;
      // The name is replaced in `few`, and `value` is the register of the original code, for which
      // the last use is known. The operands' registers are released before the result gets one, so
      // a result may take that of an operand.
      const std::uint8_t value = *name;
      *name = place[value];
      if (last_use[value] == i) taken[*name] = false;
    }
    const auto free = std::find(taken.begin(), taken.end(), false);
    if (free == taken.end()) return std::nullopt;
    *free = true;
    step.to = place[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(free - taken.begin());
  }
  for (std::int32_t k = 0; k < code.outputs; ++k) {
    std::uint8_t& result = few.result[static_cast<std::size_t>(k)];
    result = place[result];
  }
  return few;
}

std::string code_text(const ElementCode& code) {
  constexpr const char* kNames[] = {
#define ES_ELEMENT_OP(name, operands) #name,
      ES_ELEMENT_OPS(ES_ELEMENT_OP)
#undef ES_ELEMENT_OP
  };
  std::string text;
  for (std::int32_t i = 0; i < code.instructions; ++i) {
    if (i != 0) text += ", ";
    const auto op = static_cast<std::size_t>(code.instruction[static_cast<std::size_t>(i)].op);
    for (const char* c = kNames[op] + 1; *c != '\0'; ++c)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  return text;
}

ElementSpace space_of(const TensorShape& shape) {
  ElementSpace space;
  space.rank = shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis)
    space.size[static_cast<std::size_t>(axis)] = shape[axis];
  return space;
}

std::array<std::int64_t, kProgramRank> repeated_strides(const TensorShape& from,
                                                        const TensorShape& to) {
  std::array<std::int64_t, kProgramRank> strides = {};
  std::int64_t stride = 1;
  for (int axis = from.rank() - 1; axis >= 0; --axis) {
    const auto at = static_cast<std::size_t>(axis + to.rank() - from.rank());
    // Axes that `from` does not have keep the stride 0 as well, so its elements are repeated along
    // them.
    strides[at] = from[axis] == 1 ? 0 : stride;
    stride *= from[axis];
  }
  return strides;
}

bool broadcasts(const TensorShape& from, const TensorShape& to) {
  if (from.rank() > to.rank()) return false;
  for (int axis = 0; axis < from.rank(); ++axis)
    if (from[axis] != 1 && from[axis] != to[axis + to.rank() - from.rank()]) return false;
  return true;
}

bool reads_in_order(const ElementSpace& space, std::size_t k) {
  std::int64_t stride = 1;
  for (std::int32_t d = space.rank; d-- > 0;) {
    const auto at = static_cast<std::size_t>(d);
    // The stride of an axis with one element is never used, so any value is in order.
    if (space.size[at] != 1 && space.stride[k][at] != stride) return false;
    stride *= space.size[at];
  }
  return true;
}

std::optional<TensorShape> broadcast_shape(std::span<const TensorShape> operands) {
  int rank = 0;
  for (const TensorShape& s : operands) rank = std::max(rank, s.rank());
  TensorShape result;
  for (int axis = 0; axis < rank; ++axis) {
    std::int64_t extent = 1;
    for (const TensorShape& s : operands) {
      const int at = axis - (rank - s.rank());
      // The last operand that does not repeat the axis decides. Operands that disagree are found
      // below, where one of them does not broadcast to the result.
      if (at >= 0 && s[at] != 1) extent = s[at];
    }
    result.append(extent);
  }
  for (const TensorShape& s : operands)
    if (!broadcasts(s, result)) return std::nullopt;
  return result;
}

}  // namespace es::gpu
