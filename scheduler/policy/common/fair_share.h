#pragma once
// FairShare remembers how much every queue has used, and says which queues come first.
//
// The usage of a queue is the sum of devices x seconds that its jobs have held. It halves in every
// half-life:
//
//   usage(t) = sum over charges of device_seconds * 2^(-(t - time of the charge) / half_life)
//
// Queues with the same parent are compared by usage / weight, in steps of a factor of sqrt(2), so
// that queues which are nearly equal stay equal and do not take turns:
//
//   band = round(2 * log2(usage / weight * sum of weights / sum of usages))      limited to -8 .. 8
//
// The level of a leaf is its place when leaves are ordered by the bands on the way from the top to
// it. Leaves with equal bands have equal levels; 0 comes first. A queue with the weight 0 comes
// after its siblings, and a job in no queue after all queues.
//
// Pure: the time is an argument, and equal calls give equal results. Not thread-safe.
#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/model/seconds.h"
#include "scheduler/policy/common/queue.h"

namespace es::scheduler {

class FairShare {
 public:
  // REQUIRES: completed_queues() has returned them; half_life > 0.
  FairShare(const std::vector<Queue>& queues, Seconds half_life);

  // How often usage is charged and levels are computed: a hundredth of the half-life, from 1 s to 5
  // minutes.
  Seconds period() const { return period_; }
  // Lets usage decay until this time. Times never decrease.
  void advance(Seconds now);
  // Adds usage to the leaf, and to the queues above it. A name that does not exist is ignored.
  void charge(const std::string& leaf, double device_seconds);
  // Device-seconds.
  double usage(const std::string& queue) const;
  // The level of each leaf, as of now. That of jobs in no queue, whose name does not exist, is the
  // largest one.
  std::uint32_t level(const std::string& leaf) const;
  // Computes the levels anew. Returns whether one has changed.
  bool rank();

 private:
  struct Node {
    std::string name;
    std::int32_t parent = -1;
    bool is_leaf = true;
    double weight = 0;
    double usage = 0;
    std::uint32_t level = 0;
  };
  std::size_t index_of(const std::string& name) const;  // nodes_.size() if there is none
  std::vector<int> bands() const;

  std::vector<Node> nodes_;
  Seconds half_life_, period_;
  Seconds now_{0};
  std::uint32_t last_level_ = 0;
};

}  // namespace es::scheduler
