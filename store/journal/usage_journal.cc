#include "store/journal/usage_journal.h"

#include <cmath>

#include "store/kv/keys.h"
#include "store/kv/record_fields.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr const char* kUsageTable = "usage";

}  // namespace

// The name is in the key too, as in ClaimJournal.
template <>
struct RecordFields<UsageRecord> {
  static constexpr std::uint8_t kOldestVersion = 1;
  template <class Usage, class Visit>
  static void visit_fields(Usage& usage, Visit& visit) {
    visit("queue", usage.queue);
    visit("device_seconds", usage.device_seconds);
    visit.expect(std::isfinite(usage.device_seconds) && usage.device_seconds >= 0);
    visit("unix_ms", usage.unix_ms);
  }
};

Result<UsageRecord> decode_usage(std::string_view bytes) {
  return decode_record<UsageRecord>(bytes, "usage of a queue");
}

Status UsageJournal::save(const std::vector<UsageRecord>& records) {
  WriteBatch batch;
  for (const UsageRecord& record : records)
    batch.put(KeyBuilder(kUsageTable).text(record.queue).key(), encode_record(record));
  return store_.write(batch, Durability::kBuffered);
}

Result<std::vector<UsageRecord>> UsageJournal::load_all() const {
  return load_table(store_, kUsageTable, decode_usage);
}

}  // namespace es::store
