#pragma once
// Float64 numbers whose differences fp32 loses, as those of times in seconds since 1970.
//
// Two neighbours are the same element of consecutive samples, or consecutive elements of a sample.
// Of the neighbours that differ in float64, by more than a part in 2^40, at most one pair in 100
// may be equal in fp32. The Python package has the same rule (python/easyscale/data/rounding.py).
#include <cstddef>
#include <span>
#include <string>

#include "proto/base/result.h"

namespace es::store {

// Error (usage), naming the array `where`, the places of two numbers that become equal, and what to
// do. `numbers` are the first samples, of this many elements each.
Status check_differences(const std::string& where, std::span<const double> numbers,
                         std::size_t elements);

}  // namespace es::store
