#pragma once
// Queue: a part of the cluster that jobs share. Queues form a tree. Jobs are in its leaves, and an
// inner queue stands for all jobs below it. Values; thread-safe.
//
//   guarantee   devices that the jobs of the queue can have as soon as they want them. Others may
//               borrow them meanwhile, and give them back when a job of the queue waits.
//   borrow      the most devices beyond the guarantee, by type. The limit of a type is the sum of
//               both; a type that is not named has no limit.
//   tier        preemption class: of the devices of its parent that no guarantee needs, a queue
//               gets what it wants before its siblings of a lower tier, also if their jobs have
//               to shrink or are suspended.
//   weight      part of those devices beside the siblings of the same tier. With weight 0 a queue
//               gets such devices only when they are left over.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::scheduler {

inline constexpr double kQueueWeightMax = 1e6;
inline constexpr std::size_t kQueuesMax = 1000;
inline constexpr std::uint32_t kQueueTierMax = 100;
// The queue of jobs that name none and whose tenant has none, if there is a queue of this name.
inline constexpr std::string_view kDefaultQueue = "default";

struct Queue {
  std::string name;
  DeviceSet guarantee;
  std::string parent = {};  // empty: directly below the cluster
  std::map<DeviceType, std::uint32_t> borrow = {};
  double weight = 0;
  std::vector<std::string> tenants = {};  // whose jobs may be in it; empty: all
  std::uint32_t tier = 0;                 // <= kQueueTierMax
  bool operator==(const Queue&) const = default;
};

// Checks the queues, and gives an inner queue without a guarantee that of its children together.
// Error (usage), which names the queue, the field and its value: a name is malformed or occurs
// twice, a parent does not exist or is its own ancestor, a weight or a tier is out of range, the
// guarantees of the children of a queue exceed its own, or there are more than kQueuesMax.
Result<std::vector<Queue>> completed_queues(std::vector<Queue> queues);

// The queue of this name, or nullptr.
const Queue* find_queue(const std::vector<Queue>& queues, std::string_view name);
// Whether it has no children, so that jobs may be in it.
bool is_leaf(const std::vector<Queue>& queues, std::string_view name);
// The names of the leaves, separated by commas.
std::string leaves_text(const std::vector<Queue>& queues);

// The most devices of a type that the queue may have, with the limits of all queues above it.
std::uint64_t most_of_queue(const std::vector<Queue>& queues, std::string_view name,
                            const DeviceType& type);

// The queue of a job: the one that it names, otherwise the leaf with the name of its tenant,
// otherwise the leaf kDefaultQueue; empty if there is none of these that its tenant may use.
std::string queue_of_job(const std::vector<Queue>& queues, const std::string& named,
                         const std::string& tenant);
// Error: there are queues, and the job names one that does not exist or has others below it
// (usage), or one that its tenant may not use (refused).
Status check_queue_of_job(const std::vector<Queue>& queues, const std::string& named,
                          const std::string& tenant);
// Adds devices to the guarantee of this queue and of all queues above it. REQUIRES: it exists.
void add_guarantee(std::vector<Queue>& queues, const std::string& name, const DeviceType& type,
                   std::uint32_t count);
// Whether jobs of this tenant may be in the queue, or in one below it.
bool serves_tenant(const std::vector<Queue>& queues, const Queue& queue, const std::string& tenant);

}  // namespace es::scheduler
