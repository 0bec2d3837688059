#pragma once
// What queues have, for display. Pure function; thread-safe.
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/policy/common/policy.h"

namespace es::scheduler {

struct QueueState {
  Queue queue;
  struct OfType {
    DeviceType type;
    std::uint32_t guarantee = 0;
    std::optional<std::uint32_t> limit = {};
    std::uint32_t used = 0;
    std::uint32_t entitled = 0;  // QueueTree::entitled
  };
  std::vector<OfType> types = {};  // of the cluster and of all guarantees, ascending
  std::uint32_t running = 0;       // jobs in it, or below it, that hold devices
  std::uint32_t waiting = 0;       // the others
};

// In the order of ClusterView::queues.
std::vector<QueueState> queue_states(const ClusterView& view);

}  // namespace es::scheduler
