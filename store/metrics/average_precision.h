#pragma once
// Average precision of boxes, as VOC 2010 and later define it: the area below precision as a
// function of recall, where precision is made falling from the right (all-point interpolation).
#include <cstdint>
#include <span>

#include "store/metrics/metric.h"

namespace es::store {

// Of one class. Boxes with equal scores stay in their order. `count` > 0 true boxes.
double average_precision(std::vector<ScoredBox> boxes, std::uint64_t count);

// Mean over the classes with counts[class] > 0; 0 when there is none.
double mean_average_precision(std::span<const ScoredBox> boxes,
                              std::span<const std::uint64_t> counts);

}  // namespace es::store
