#include "store/journal/claim_journal.h"

#include "store/kv/keys.h"
#include "store/kv/record_fields.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr const char* kClaimTable = "claim";

std::string key_of(const std::string& name) {
  return KeyBuilder(kClaimTable).text(name).key();
}

}  // namespace

// The name is in the key too. A check of the directory can thus find a value under a wrong key
// (store/recovery/records.cc).
template <>
struct RecordFields<ClaimRecord> {
  static constexpr std::uint8_t kOldestVersion = 1;
  template <class Claim, class Visit>
  static void visit_fields(Claim& claim, Visit& visit) {
    visit("name", claim.name);
    visit("type", claim.type.name);
    visit("count", claim.count);
    visit.added();  // reservations
    visit("from_unix_ms", claim.from_unix_ms);
    visit("until_unix_ms", claim.until_unix_ms);
    visit("queue", claim.queue);
  }
};

std::pair<std::uint32_t, std::uint32_t> claim_record_versions() {
  return record_versions<ClaimRecord>();
}

Result<ClaimRecord> decode_claim(std::string_view bytes) {
  return decode_record<ClaimRecord>(bytes, "claim");
}

Status ClaimJournal::save(const ClaimRecord& claim) {
  WriteBatch batch;
  batch.put(key_of(claim.name), encode_record(claim));
  return store_.write(batch, Durability::kSynced);
}

Status ClaimJournal::erase(const std::string& name) {
  WriteBatch batch;
  batch.erase(key_of(name));
  return store_.write(batch, Durability::kSynced);
}

Result<std::vector<ClaimRecord>> ClaimJournal::load_all() const {
  return load_table(store_, kClaimTable, decode_claim);
}

}  // namespace es::store
