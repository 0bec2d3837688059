#pragma once
// The textbook definitions of element-wise functions and reductions in double precision.
#include <span>
#include <vector>

#include "gpu/graph/functions.h"

namespace es::test {

// Integers and truth values are their values.
double function_fp64(gpu::Function function, const gpu::FunctionParameters& parameters,
                     std::span<const double> x);

double reduction_fp64(gpu::Reduction kind, std::span<const double> x);

}  // namespace es::test
