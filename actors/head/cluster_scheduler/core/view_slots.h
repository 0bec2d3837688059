#pragma once
// The slots of ClusterView::jobs. A part of ClusterCore, pure.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "scheduler/policy/common/policy.h"

namespace es::actors {

class ViewSlots {
 public:
  // Returns an empty slot. Their number doubles when it grows, because a policy may have to look at
  // all slots again. The smallest ones are used first.
  std::size_t take(std::vector<scheduler::JobView>& jobs) {
    if (free_.empty()) {
      const std::size_t before = jobs.size();
      jobs.resize(std::max<std::size_t>(16, 2 * before));
      for (std::size_t slot = jobs.size(); slot > before; --slot) free_.push_back(slot - 1);
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void release(std::vector<scheduler::JobView>& jobs, std::size_t slot) {
    jobs[slot] = {};
    free_.push_back(slot);
    left_.push_back(slot);
  }
  // The slots that were released since the last call. The policy must learn that they are empty,
  // even if other jobs have taken them meanwhile.
  std::vector<std::size_t> take_left() { return std::exchange(left_, {}); }

 private:
  std::vector<std::size_t> free_;  // the last one is used next
  std::vector<std::size_t> left_;
};

}  // namespace es::actors
