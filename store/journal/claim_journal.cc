#include "store/journal/claim_journal.h"

#include "store/kv/keys.h"
#include "store/kv/record_codec.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr const char* kClaimTable = "claim";
constexpr std::uint8_t kClaimRecordVersion = 2;
constexpr std::uint8_t kRecordWithoutTime = 1;  // of releases before there were reservations

std::string key_of(const std::string& name) {
  return KeyBuilder(kClaimTable).text(name).key();
}

}  // namespace

std::pair<std::uint32_t, std::uint32_t> claim_record_versions() {
  return {kRecordWithoutTime, kClaimRecordVersion};
}

Result<ClaimRecord> decode_claim(std::string_view bytes) {
  const bool has_time = !bytes.starts_with(static_cast<char>(kRecordWithoutTime));
  RecordReader in(bytes, has_time ? kClaimRecordVersion : kRecordWithoutTime, "claim");
  ClaimRecord claim;
  claim.name = in.text();
  claim.type.name = in.text();
  claim.count = in.u32();
  if (has_time) {
    claim.from_unix_ms = in.u64();
    claim.until_unix_ms = in.u64();
    claim.queue = in.text();
  }
  ES_RETURN_IF_ERROR(in.finish());
  return claim;
}

Status ClaimJournal::save(const ClaimRecord& claim) {
  RecordWriter out(kClaimRecordVersion);
  // The name is in the key too. A check of the directory can thus find a value under a wrong key
  // (store/recovery/records.cc).
  out.text(claim.name);
  out.text(claim.type.name);
  out.u32(claim.count);
  out.u64(claim.from_unix_ms);
  out.u64(claim.until_unix_ms);
  out.text(claim.queue);
  WriteBatch batch;
  batch.put(key_of(claim.name), out.take());
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
