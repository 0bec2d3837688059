#include "actors/head/cluster_scheduler/shell/queue_usage.h"

namespace es::actors {

Status QueueUsage::restore() {
  const auto usage = journal_.load_all();
  if (!usage) return usage.error();
  for (const store::UsageRecord& record : *usage)
    decisions_.take(cluster::UsageRestored{record.queue, record.device_seconds,
                                           clock_.seconds_since(record.unix_ms)});
  return {};
}

void QueueUsage::save(const std::vector<std::pair<std::string, double>>& usage) {
  std::vector<store::UsageRecord> records;
  for (const auto& [queue, device_seconds] : usage)
    records.push_back({queue, device_seconds, clock_.unix_ms()});
  if (const Status saved = journal_.save(records); !saved.ok())
    writes_.failed(saved.error().message);
}

}  // namespace es::actors
