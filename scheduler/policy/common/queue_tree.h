#pragma once
// QueueTree is the tree of queues in numbers, by the device types of a ClusterTable, and QueueUse
// says what a queue may still take. Both are pure: they know devices only by their number.
//
// The queues have the indices 0 .. size() - 1 in the given order. The last index, none(), stands
// for jobs in no queue, which have no guarantee and no limit.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "scheduler/policy/common/counts.h"
#include "scheduler/policy/common/queue.h"

namespace es::scheduler {

class QueueTree {
 public:
  static constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::int32_t kTop = -1;

  QueueTree() = default;
  // REQUIRES: completed_queues() has returned them; `types` are ascending and contain all types of
  // all guarantees.
  QueueTree(const std::vector<Queue>& queues, const std::vector<DeviceType>& types);

  std::size_t size() const { return nodes_.size(); }
  bool empty() const { return nodes_.size() <= 1; }
  std::uint32_t none() const { return static_cast<std::uint32_t>(nodes_.size()) - 1; }
  // none() for a name that does not exist.
  std::uint32_t index_of(const std::string& name) const;
  std::int32_t parent(std::uint32_t queue) const { return nodes_[queue].parent; }
  const Counts& guarantee(std::uint32_t queue) const { return nodes_[queue].guarantee; }
  // The most devices of each type that the queue itself may have.
  const Counts& limit(std::uint32_t queue) const { return nodes_[queue].limit; }
  // The same with the limits of all queues above it.
  const Counts& reach(std::uint32_t queue) const { return nodes_[queue].reach; }

  // The devices that each queue is entitled to, by index: those that its jobs may have before any
  // job of another queue borrows.
  //
  // `demand` is what the jobs in each leaf could use. A queue gets its guarantee, as far as it
  // wants it. What is then left of the devices of its parent goes to those children that want more,
  // the highest tier first and within a tier in the ratio of their weights, up to their limits.
  // `supply` is what the queues at the top share. So the children of a queue never have more
  // together than the queue, and a queue has its guarantee even if the cluster is smaller than all
  // guarantees.
  std::vector<Counts> entitled(std::vector<Counts> demand, const Counts& supply) const;

 private:
  struct Node {
    std::string name;
    std::int32_t parent = kTop;
    std::vector<std::uint32_t> children;
    Counts guarantee, limit, reach;
    double weight = 0;
    std::uint32_t tier = 0;
  };
  void share(const std::vector<std::uint32_t>& children, const Counts& amount,
             const std::vector<Counts>& wanted, std::vector<Counts>& result) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);  // the last one is none()
  std::vector<std::uint32_t> top_;
  std::vector<std::uint32_t> parents_first_;
  std::size_t types_ = 0;
};

class QueueUse {
 public:
  QueueUse() = default;
  explicit QueueUse(const QueueTree& tree);

  // Devices that jobs in this leaf have. They count for all queues above it, too.
  void add(std::uint32_t leaf, std::span<const std::uint32_t> counts);
  // REQUIRES: these devices were added for this leaf.
  void remove(std::uint32_t leaf, std::span<const std::uint32_t> counts);
  const Counts& of(std::uint32_t queue) const { return used_[queue]; }
  // The most devices of a type that can be added for the leaf without exceeding the limit of a
  // queue on its way to the top, after `without` of them were removed. 0 also if there is more than
  // allowed already.
  std::uint32_t room(std::uint32_t leaf, std::size_t type, std::uint32_t without = 0) const;
  bool allows(std::uint32_t leaf, std::span<const std::uint32_t> counts) const;

 private:
  const QueueTree* tree_ = nullptr;
  std::vector<Counts> used_;
};

}  // namespace es::scheduler
