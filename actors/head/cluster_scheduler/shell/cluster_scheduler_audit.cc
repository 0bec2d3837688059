// ClusterScheduler: devices that an audit found to be wrong, and requests for ledgers of jobs.
#include <caf/all.hpp>

#include <algorithm>
#include <bit>

#include "actors/base/access/core/requests.h"
#include "actors/base/log/log.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"

namespace es::actors {
namespace {

// Numbers in one LedgerPart, so that it stays far below the limit of a frame.
constexpr std::size_t kPartNumbersMax = 64 * 1024;
constexpr std::size_t kDigestNumbers = 8;  // approximate size of a line without its losses

store::SuspectDevice stored(const DeviceId& device, const std::string& reason) {
  return {device.node, device.type, device.index, reason};
}

void put(wire::LedgerLine::Builder b, const store::LedgerLine& line) {
  b.setVersion(line.version);
  auto losses = b.initLossBits(line.losses.size());
  for (std::size_t i = 0; i < line.losses.size(); ++i)
    losses.set(i, std::bit_cast<std::uint32_t>(line.losses[i]));
  if (!line.params_digest) return;
  b.initParams().setHigh(line.params_digest->high);
  b.getParams().setLow(line.params_digest->low);
}

// Returns the number of lines for one part. REQUIRES: lines is not empty.
std::size_t part_of(const std::vector<store::LedgerLine>& lines) {
  // All lines of a job have one loss for each EST, so the first one stands for all.
  const std::size_t each = lines.front().losses.size() + kDigestNumbers;
  return std::min(lines.size(), std::max<std::size_t>(1, kPartNumbersMax / each));
}

}  // namespace

Status ClusterSchedulerState::restore_suspects() {
  const auto suspects = store_->suspects().load_all();
  if (!suspects) return suspects.error();
  for (const store::SuspectDevice& s : *suspects)
    take(protocol::DeviceSuspected{{s.node, s.type, s.index}, s.reason});
  return {};
}

void ClusterSchedulerState::on_suspected(const protocol::DeviceSuspected& suspected) {
  log::warning(
      "device " + suspected.device.text() + " is no longer given to any job: " + suspected.reason,
      {.node = suspected.device.node});
  // The device is withheld at once, even if this cannot be written now, because a job could
  // otherwise get wrong results from it.
  write_when_possible([this, suspected] {
    return store_->suspects().save(stored(suspected.device, suspected.reason));
  });
  take(suspected);
  send_inventory();
}

// Nothing is journaled: after a restart of the head the device is tried again.
void ClusterSchedulerState::on_device_failed(const JobId& job, protocol::DeviceFailed failed) {
  log::warning("a try to use device " + failed.device.text() + " has failed" +
                   (failed.other.empty() ? "" : " with node " + failed.other) + ": " +
                   failed.reason,
               {.job = job, .node = failed.device.node});
  on_job_message(job, std::move(failed));
}

void ClusterSchedulerState::clear_device(const Inbound& inbound) {
  const auto request = Msg<wire::ClearDevice>::from_frame(inbound.frame);
  const auto device =
      request->decode([](wire::ClearDevice::Reader r) { return device_from(r.getDevice()); });
  if (!device) return refuse(inbound, device.error());
  if (const Status ok = check_accepting(); !ok.ok()) return refuse(inbound, ok.error());
  const auto suspects = store_->suspects().load_all();
  if (!suspects) return refuse(inbound, suspects.error());
  const bool known = std::any_of(suspects->begin(), suspects->end(), [&](const auto& s) {
    return DeviceId{s.node, s.type, s.index} == *device;
  });
  if (!known && !core_->is_set_aside(*device))
    return refuse(inbound, not_found("device " + device->text() + " is not suspect (esctl nodes)"));
  // The change is durable before the device can be granted. A head that ended in between would
  // otherwise call a device suspect on which a job already runs.
  if (const Status saved = not_written(store_->suspects().clear(stored(*device, ""))); !saved.ok())
    return refuse(inbound, saved.error());
  log::info("device " + device->text() + " may be used again", {.node = device->node});
  take(cluster::DeviceCleared{*device});
  send_inventory();
  answer<wire::Done>(inbound, [](wire::Done::Builder) {});
}

void ClusterSchedulerState::read_ledger(const Inbound& inbound) {
  const JobId job = find_job(inbound.frame->envelope.job);
  struct Range {
    Version begin, end;
  };
  const auto request = Msg<wire::ReadLedger>::from_frame(inbound.frame);
  const auto range = request->decode([](wire::ReadLedger::Reader r) {
    return Range{r.getBegin(), r.getEnd()};
  });
  if (!range) return refuse(inbound, range.error());
  const auto record = store_->load(job);
  if (!record) return refuse(inbound, record.error());
  if (!record->has_value())
    return refuse(inbound, access::no_such_job(inbound.frame->envelope.job));
  auto lines =
      store_->ledger().read(job, range->begin, range->end, kPartNumbersMax / kDigestNumbers);
  if (!lines) return refuse(inbound, lines.error());
  const std::size_t count = lines->empty() ? 0 : part_of(*lines);
  answer<wire::LedgerPart>(inbound, [&](wire::LedgerPart::Builder b) {
    b.setSpecToml((*record)->spec_toml);
    b.setStartCheckpoint((*record)->start_checkpoint);
    auto list = b.initLines(count);
    for (std::size_t i = 0; i < count; ++i) put(list[i], (*lines)[i]);
    // A client may ask for more versions than the ledger has. Then the last part with lines still
    // names a next version, and the part for it is empty and names none, which ends the series.
    if (count > 0 && (*lines)[count - 1].version + 1 < range->end)
      b.setNext((*lines)[count - 1].version + 1);
  });
}

}  // namespace es::actors
