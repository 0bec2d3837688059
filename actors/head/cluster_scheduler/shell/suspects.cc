#include "actors/head/cluster_scheduler/shell/suspects.h"

#include <algorithm>

#include "actors/base/gateway/shell/visit.h"
#include "actors/base/log/log.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "proto/messages.h"

namespace es::actors {
namespace {

store::SuspectDevice stored(const DeviceId& device, const std::string& reason) {
  return {device.node, device.type, device.index, reason};
}

}  // namespace

Status Suspects::restore() {
  const auto suspects = journal_.load_all();
  if (!suspects) return suspects.error();
  for (const store::SuspectDevice& s : *suspects)
    decisions_.take(protocol::DeviceSuspected{{s.node, s.type, s.index}, s.reason});
  return {};
}

void Suspects::add(const protocol::DeviceSuspected& suspected) {
  log::warning(
      "device " + suspected.device.text() + " is no longer given to any job: " + suspected.reason,
      {.node = suspected.device.node});
  // The device is withheld at once, even if this cannot be written now, because a job could
  // otherwise get wrong results from it.
  writes_.when_possible(
      [this, suspected] { return journal_.save(stored(suspected.device, suspected.reason)); });
  decisions_.take(suspected);
}

Status Suspects::clear(const Inbound& request) {
  const auto device = visit<wire::ClearDevice>(
      request, [](wire::ClearDevice::Reader r) { return device_from(r.getDevice()); });
  if (!device) return device.error();
  ES_RETURN_IF_ERROR(writes_.check_accepting());
  const auto suspects = journal_.load_all();
  if (!suspects) return suspects.error();
  const bool known = std::any_of(suspects->begin(), suspects->end(), [&](const auto& s) {
    return DeviceId{s.node, s.type, s.index} == *device;
  });
  if (!known && !decisions_.core().is_set_aside(*device))
    return not_found("device " + device->text() + " is not suspect (esctl nodes)");
  // A head that ended in between would otherwise call a device suspect on which a job already runs.
  ES_RETURN_IF_ERROR(writes_.checked(journal_.clear(stored(*device, ""))));
  log::info("device " + device->text() + " may be used again", {.node = device->node});
  decisions_.take(cluster::DeviceCleared{*device});
  return {};
}

}  // namespace es::actors
