#include "gpu/import/concat.h"

#include <algorithm>

namespace es::gpu {

TensorId concat_all(GraphBuilder& b, const std::string& name, std::vector<TensorId> xs, int axis) {
  // One move takes at most kMoveTensorsMax inputs, so longer lists are joined in several rounds. A
  // concatenation copies, so the grouping changes no bit.
  while (xs.size() > 1) {
    std::vector<TensorId> joined;
    for (std::size_t i = 0; i < xs.size(); i += kMoveTensorsMax) {
      const std::size_t end = std::min(xs.size(), i + kMoveTensorsMax);
      const std::vector<TensorId> group(xs.begin() + static_cast<std::ptrdiff_t>(i),
                                        xs.begin() + static_cast<std::ptrdiff_t>(end));
      joined.push_back(group.size() == 1 ? group[0] : b.concat(name, group, axis));
    }
    xs = std::move(joined);
  }
  return xs[0];
}

}  // namespace es::gpu
