#pragma once
// Random element-wise programs over random index spaces, for tests of every kernel class and of the
// device's kernels.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "gpu/canonical/program.h"
#include "tests/gpu/canonical/kernel_testing.h"

namespace es::gpu::testing {

struct RandomProgram {
  ElementCode code;
  ElementSpace space;
  std::vector<Floats> inputs;
  std::int64_t count = 1;  // elements of an output

  std::vector<const float*> in() const {
    std::vector<const float*> addresses;
    for (const Floats& input : inputs) addresses.push_back(input);
    return addresses;
  }
};

// Any floats: special values, small numbers, large ones, and arbitrary bits.
inline float any_float(Random& random) {
  constexpr float kSpecial[] = {0.0f,       -0.0f,       INFINITY,  -INFINITY, NAN,
                                1.0f,       -1.0f,       0.5f,      2.0f,      0x1p-149f,
                                0x1p-126f,  0x1p23f,     0x1p31f,   -0x1p31f,  0x1.fffffep127f,
                                -0x1p-149f, 0x1.8p-130f, 131072.0f, -3.0f,     2.5f};
  const std::int64_t at = random.integer(0, 79);
  if (at < std::ssize(kSpecial)) return kSpecial[at];
  if (at < 60) return random.normal() * (at < 40 ? 1.0f : 30.0f);
  return std::bit_cast<float>(static_cast<std::uint32_t>(random.integer(0, 0xffffffff)));
}

inline bool works_on_words(ElementOp op) {
  return (op >= ElementOp::kAddInt && op <= ElementOp::kFromInt) ||
         (op >= ElementOp::kAndInt && op <= ElementOp::kFromLong);
}

// The bits of a NaN are not defined, so only values that no floating-point operation has computed
// are operands of integer operations.
inline bool gives_defined_bits(ElementOp op) {
  return op >= ElementOp::kEqual && op != ElementOp::kSelect && op != ElementOp::kFromInt;
}

// Of the operations `ops`, or of all.
inline ElementCode random_code(Random& random, std::int32_t inputs,
                               std::span<const ElementOp> ops = {}) {
  ElementCode code{.inputs = inputs,
                   .constants = static_cast<std::int32_t>(random.integer(0, kProgramConstants)),
                   .instructions = static_cast<std::int32_t>(
                       random.integer(1, random.coin() ? 4 : kProgramInstructions)),
                   .outputs = static_cast<std::int32_t>(random.integer(1, kProgramOutputs))};
  for (float& c : code.constant) c = any_float(random);
  std::vector<std::uint8_t> words, all;
  for (std::int32_t k = 0; k < inputs; ++k)
    words.push_back(static_cast<std::uint8_t>(kFirstInput + k));
  for (std::int32_t k = 0; k < code.constants; ++k)
    words.push_back(static_cast<std::uint8_t>(kFirstConstant + k));
  all = words;
  const auto one_of = [&](const std::vector<std::uint8_t>& names) {
    return names[static_cast<std::size_t>(random.integer(0, std::ssize(names) - 1))];
  };
  for (std::int32_t i = 0; i < code.instructions; ++i) {
    const auto op = ops.empty()
                        ? static_cast<ElementOp>(random.integer(0, kElementOps - 1))
                        : ops[static_cast<std::size_t>(random.integer(0, std::ssize(ops) - 1))];
    const std::vector<std::uint8_t>& from = works_on_words(op) ? words : all;
    const std::uint8_t a = one_of(from);
    Instruction step{
        op, static_cast<std::uint8_t>(random.integer(0, kProgramRegisters - 1)), a, a, a, a};
    if (operands_of(op) > 1) step.b = one_of(from);
    if (operands_of(op) > 2) step.c = one_of(from);
    if (operands_of(op) > 3) step.d = one_of(from);
    code.instruction[static_cast<std::size_t>(i)] = step;
    std::erase(words, step.to);
    std::erase(all, step.to);
    all.push_back(step.to);
    if (gives_defined_bits(op)) words.push_back(step.to);
  }
  std::erase_if(all, [](std::uint8_t name) { return name >= kFirstInput; });
  for (std::uint8_t& r : code.result) r = one_of(all);
  return code;
}

// Each input is read in order, repeated along some dimensions, or transposed.
inline RandomProgram random_program(Random& random, std::int64_t count_max,
                                    std::span<const ElementOp> ops = {}) {
  RandomProgram p;
  p.code = random_code(random, static_cast<std::int32_t>(random.integer(1, kProgramInputs)), ops);
  p.space.rank = static_cast<std::int32_t>(random.integer(1, kProgramRank));
  std::vector<std::size_t> dims(static_cast<std::size_t>(p.space.rank));
  std::iota(dims.begin(), dims.end(), 0);
  random.shuffle(dims);
  for (const std::size_t d : dims) {
    const std::int64_t most = std::max<std::int64_t>(1, count_max / p.count);
    p.space.size[d] = random.integer(1, random.coin() ? std::min<std::int64_t>(most, 5) : most);
    p.count *= p.space.size[d];
  }
  for (std::int32_t k = 0; k < p.code.inputs; ++k) {
    std::sort(dims.begin(), dims.end());
    if (random.integer(0, 3) == 0) random.shuffle(dims);
    const bool repeats = random.coin();
    std::int64_t stride = 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (repeats && random.coin()) continue;
      p.space.stride[static_cast<std::size_t>(k)][dims[i]] = stride;
      stride *= p.space.size[dims[i]];
    }
    p.inputs.emplace_back(stride, [&] { return any_float(random); });
  }
  return p;
}

// All NaNs get the same bits.
inline void unify_nans(std::vector<Floats>& out) {
  for (Floats& floats : out) {
    for (std::int64_t i = 0; i < floats.size(); ++i) {
      if (std::isnan(floats[i])) floats[i] = NAN;
    }
  }
}

}  // namespace es::gpu::testing
