#pragma once
// Integers of 64 bits: pairs of tensors of one shape, the low and the high words. Each operation is
// a few operators on words (gpu/canonical/long_math.h has the instructions).
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/graph/builder.h"

namespace es::gpu {

struct Long {
  TensorId low = kNoTensor, high = kNoTensor;
};

Long long_constant(GraphBuilder& b, const std::string& name, std::int64_t value);  // [1]
Long long_from_int(GraphBuilder& b, const std::string& name, TensorId x);
Long long_from_truth(GraphBuilder& b, const std::string& name, TensorId x);
// The integer part of numbers that are not beyond_long(); others saturate, and NaN gives 0.
Long long_from_float(GraphBuilder& b, const std::string& name, TensorId x);
TensorId float_from_long(GraphBuilder& b, const std::string& name, const Long& x);

// `high` gives the high word of the result from the words of both operands; `low` the low one, from
// those of both operands or, if it is an instruction of integers of 32 bits, from the low words.
Long long_words(GraphBuilder& b, const std::string& name, ElementOp low, ElementOp high,
                const Long& x, const Long& y);
Long long_sum(GraphBuilder& b, const std::string& name, const Long& x, const Long& y);
Long long_maximum(GraphBuilder& b, const std::string& name, const Long& x, const Long& y);
Long long_minimum(GraphBuilder& b, const std::string& name, const Long& x, const Long& y);
// Truth values.
TensorId long_less(GraphBuilder& b, const std::string& name, const Long& x, const Long& y);
TensorId long_equal(GraphBuilder& b, const std::string& name, const Long& x, const Long& y);

// Sums (modulo 2^64), maxima and minima over axes, and running sums.
Long long_reduce(GraphBuilder& b, const std::string& name, Reduction kind, Long x,
                 const std::vector<int>& axes, bool keepdim);
Long long_cumsum(GraphBuilder& b, const std::string& name, Long x, int axis);

}  // namespace es::gpu
