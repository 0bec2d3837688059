#pragma once
// The code of an element-wise update. Pure.
#include <optional>
#include <span>

#include "gpu/graph/update_graphs.h"

namespace es::gpu {

// Returns one element-wise program that computes all outputs of the update's graph; nothing if the
// graph has an operator that is not element-wise, a state of another number of elements than the
// parameter, or more than program.h allows. `places` are those of the states.
std::optional<CapturedCode> element_code(const UpdateGraph& update, std::int64_t count,
                                         std::span<const StatePlace> places);

}  // namespace es::gpu
