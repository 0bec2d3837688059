#include "actors/head/cluster_scheduler/shell/inventory_message.h"

#include <string>
#include <vector>

#include "actors/base/protocol/wire/wire_devices.h"

namespace es::actors {

Msg<wire::Inventory> InventoryMessage::current() {
  const DeviceSet& devices = core_.existing_devices();
  if (last_ && devices_ == devices) return *last_;
  std::vector<std::string> present;
  for (const auto& node : core_.nodes())
    // The core treats a draining node as lost, but its daemon still runs and can read saved states.
    if (book_.is_present(node)) present.push_back(node.name);
  devices_ = devices;
  last_ = Msg<wire::Inventory>::build({}, [&](wire::Inventory::Builder b) {
    put(b.initDevices(devices.counts.size()), devices);
    auto nodes = b.initNodes(static_cast<unsigned>(present.size()));
    for (unsigned i = 0; i < nodes.size(); ++i) nodes.set(i, present[i]);
  });
  return *last_;
}

}  // namespace es::actors
