#include "store/journal/usage_journal.h"

#include <cmath>

#include "store/kv/keys.h"
#include "store/kv/record_codec.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr const char* kUsageTable = "usage";
constexpr std::uint8_t kUsageRecordVersion = 1;

}  // namespace

Result<UsageRecord> decode_usage(std::string_view bytes) {
  RecordReader in(bytes, kUsageRecordVersion, "usage of a queue");
  UsageRecord usage;
  usage.queue = in.text();
  usage.device_seconds = in.f64();
  usage.unix_ms = in.u64();
  in.expect(std::isfinite(usage.device_seconds) && usage.device_seconds >= 0, "device_seconds");
  ES_RETURN_IF_ERROR(in.finish());
  return usage;
}

Status UsageJournal::save(const std::vector<UsageRecord>& records) {
  WriteBatch batch;
  for (const UsageRecord& record : records) {
    RecordWriter out(kUsageRecordVersion);
    // The name is in the key too, as in ClaimJournal.
    out.text(record.queue);
    out.f64(record.device_seconds);
    out.u64(record.unix_ms);
    batch.put(KeyBuilder(kUsageTable).text(record.queue).key(), out.take());
  }
  return store_.write(batch, Durability::kBuffered);
}

Result<std::vector<UsageRecord>> UsageJournal::load_all() const {
  return load_table(store_, kUsageTable, decode_usage);
}

}  // namespace es::store
