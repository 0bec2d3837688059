#pragma once
// Average precision of boxes, as VOC 2010 and later define it: the area below precision as a
// function of recall, where the precision at a recall is the largest one at this or any higher
// recall (all-point interpolation).
#include <cstdint>
#include <span>

#include "store/metrics/metric.h"

namespace es::store {

// Average precision of one class. Boxes with equal scores keep their order. `count` is the number
// of true boxes, > 0.
double average_precision(std::vector<ScoredBox> boxes, std::uint64_t count);

// Mean over the classes with counts[class] > 0; 0 if there is none.
double mean_average_precision(std::span<const ScoredBox> boxes,
                              std::span<const std::uint64_t> counts);

}  // namespace es::store
