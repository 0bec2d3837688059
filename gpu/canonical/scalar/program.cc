#include "gpu/canonical/element_math.h"
#include "gpu/canonical/scalar/scalar.h"

namespace es::gpu::scalar {
namespace {

// The place of an element in every input.
struct Position {
  std::int64_t index[kProgramRank] = {};
  std::int64_t offset[kProgramInputs] = {};

  Position(const ElementSpace& space, std::int32_t inputs, std::int64_t element) {
    for (std::int32_t d = space.rank; d-- > 0; element /= space.size[d]) {
      index[d] = element % space.size[d];
      for (std::int32_t k = 0; k < inputs; ++k) offset[k] += index[d] * space.stride[k][d];
    }
  }
  void advance(const ElementSpace& space, std::int32_t inputs) {
    for (std::int32_t d = space.rank; d-- > 0;) {
      const bool inside = ++index[d] < space.size[d];
      // At the end of a dimension the offset goes back to its beginning, and the next outer
      // dimension advances.
      const std::int64_t steps = inside ? 1 : 1 - space.size[d];
      for (std::int32_t k = 0; k < inputs; ++k) offset[k] += steps * space.stride[k][d];
      if (inside) return;
      index[d] = 0;
    }
  }
};

}  // namespace

// The definition has no machine code.
void program(const ElementCode& code, TileCode /*machine_code*/, const ElementSpace& space,
             const float* const* in, float* const* out, std::int64_t begin, std::int64_t end) {
  float v[kOperandNames] = {};
  for (std::int32_t k = 0; k < code.constants; ++k) v[kFirstConstant + k] = code.constant[k];
  Position at(space, code.inputs, begin);
  for (std::int64_t i = begin; i < end; ++i, at.advance(space, code.inputs)) {
    for (std::int32_t k = 0; k < code.inputs; ++k) v[kFirstInput + k] = in[k][at.offset[k]];
    for (std::int32_t k = 0; k < code.instructions; ++k) {
      const Instruction& step = code.instruction[k];
      with_element_op(step.op, [&](auto op) {
        v[step.to] = one_element<decltype(op)::value>(v[step.a], v[step.b], v[step.c], v[step.d]);
      });
    }
    for (std::int32_t k = 0; k < code.outputs; ++k) out[k][i] = v[code.result[k]];
  }
}

}  // namespace es::gpu::scalar
