#include "gpu/optim/captured.h"

#include <algorithm>

namespace es::gpu {

std::size_t program_of(std::span<const ModelPhase> phases, Version version) {
  const auto later =
      std::ranges::upper_bound(phases, std::uint64_t{version}, {}, &ModelPhase::first_step);
  return std::prev(later)->program;
}

const CapturedCode* CapturedGroup::code_of(Version version) const {
  const std::optional<CapturedCode>& code = codes[program_of(phases, version)];
  return code ? &*code : nullptr;
}

CapturedCall::CapturedCall(const CapturedCode& captured, const ElementCode& step_code,
                           float grad_scale, std::int64_t n, const float* grad_sum, float* params,
                           float* const* moments)
    : code(step_code) {
  if (captured.scale >= 0) code.constant[static_cast<std::size_t>(captured.scale)] = grad_scale;
  space.rank = 1;
  space.size[0] = n;
  for (std::size_t k = 0; k < captured.inputs.size(); ++k) {
    const std::int32_t input = captured.inputs[k];
    space.stride[k][0] = 1;
    in[k] = input == 0 ? grad_sum : input == 1 ? params : moments[input - 2];
  }
  out[0] = params;
  for (std::size_t k = 0; k < captured.moments.size(); ++k)
    out[k + 1] = moments[captured.moments[k]];
}

}  // namespace es::gpu
