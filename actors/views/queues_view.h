#pragma once
// The output of `esctl queues`. Pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/messages.h"

namespace es::actors {

// What a queue has of one device type.
struct QueueDevicesView {
  std::string type;
  std::uint32_t guarantee = 0;
  std::optional<std::uint32_t> limit{};
  std::uint32_t used = 0;
  std::uint32_t entitled = 0;  // its guarantee and its part by weight, as far as jobs want them
  std::uint32_t reserved = 0;  // the part of its guarantee that ends with reservations

  // Devices that it has beyond those that it is entitled to.
  std::uint32_t borrowed() const { return used > entitled ? used - entitled : 0; }
};

struct QueueView {
  std::string name, parent;
  double weight = 0;
  std::uint32_t tier = 0;
  std::vector<std::string> tenants{};
  std::vector<QueueDevicesView> types{};
  std::uint32_t running = 0, waiting = 0;  // jobs with and without devices
  struct Share {
    double device_seconds = 0;  // decayed
    std::uint32_t level = 0;    // 0 is served first
  };
  std::optional<Share> share{};  // none: queues are not ordered by usage
};

// In the order of the head. Throws kj::Exception on malformed content, so call it inside
// Msg::decode.
std::vector<QueueView> read_queues(wire::NodeList::Reader reader);

// The queues that jobs of this tenant may be in, and those above them; all if it is empty.
std::vector<QueueView> queues_for(const std::vector<QueueView>& queues, const std::string& tenant);
// The queue of a job (scheduler::queue_of_job), or nullptr.
const QueueView* queue_of_job(const std::vector<QueueView>& queues, const std::string& named,
                              const std::string& tenant);

// {"queues": [{"queue": NAME, "parent": NAME or null, "weight": NUMBER, "tier": NUMBER,
// "tenants": [NAME, ...], "running": COUNT, "waiting": COUNT, "device_seconds": NUMBER or null,
// "level": COUNT or null, "types": [{"type": TYPE, "used": COUNT, "guarantee": COUNT, "reserved":
// COUNT, "entitled": COUNT, "borrowed": COUNT, "limit": COUNT or null}, ...]}, ...]}
std::string queues_json(const std::vector<QueueView>& queues);
// The tree, with one line for each queue and device type that says something.
std::string queues_text(const std::vector<QueueView>& queues);

}  // namespace es::actors
