#include "store/ledger/ledger.h"

#include <bit>

#include "proto/base/check.h"
#include "proto/base/number_text.h"
#include "store/kv/keys.h"
#include "store/kv/record_codec.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr std::uint8_t kRecordVersion = 1;

KeyBuilder job_prefix(const JobId& job) {
  KeyBuilder key("ledger");
  key.text(job);
  return key;
}

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

std::string text(const std::optional<Digest>& digest) {
  return digest ? digest->hex() : "none";
}

std::string line_name(const JobId& job, Version version) {
  return "ledger line of job \"" + job + "\", version " + std::to_string(version);
}

// Describes the first difference between two lines of one version. REQUIRES: !same_bits(a, b).
std::string difference(const LedgerLine& old_line, const LedgerLine& new_line) {
  // Losses before digests: a loss names the EST that computed something else, while the digest of
  // the parameters only says that some result differs.
  if (old_line.losses.size() != new_line.losses.size())
    return "number of losses = " + std::to_string(new_line.losses.size()) + ": allowed is " +
           std::to_string(old_line.losses.size());
  for (std::size_t rank = 0; rank < old_line.losses.size(); ++rank)
    if (bits(old_line.losses[rank]) != bits(new_line.losses[rank]))
      return "loss of rank " + std::to_string(rank) + " = " + number_text(new_line.losses[rank]) +
             " (bits " + std::to_string(bits(new_line.losses[rank])) + "): allowed is " +
             number_text(old_line.losses[rank]) + " (bits " +
             std::to_string(bits(old_line.losses[rank])) + ")";
  return "digest of the parameters = " + text(new_line.params_digest) + ": allowed is " +
         text(old_line.params_digest);
}

}  // namespace

bool same_bits(const LedgerLine& a, const LedgerLine& b) {
  if (a.version != b.version || a.params_digest != b.params_digest ||
      a.losses.size() != b.losses.size())
    return false;
  for (std::size_t rank = 0; rank < a.losses.size(); ++rank)
    // Bits and not values: == would treat two equal NaN as different, and +0 and -0 as equal.
    if (bits(a.losses[rank]) != bits(b.losses[rank])) return false;
  return true;
}

std::string encode_ledger_line(const LedgerLine& line) {
  RecordWriter out(kRecordVersion);
  out.u32(static_cast<std::uint32_t>(line.losses.size()));
  for (const float loss : line.losses) out.u32(bits(loss));
  out.u8(line.params_digest ? 1 : 0);
  if (line.params_digest) out.digest(*line.params_digest);
  return out.take();
}

Result<LedgerLine> decode_ledger_line(std::string_view bytes, Version version,
                                      const std::string& what) {
  RecordReader in(bytes, kRecordVersion, what);
  LedgerLine line;
  line.version = version;
  // count() compares the number with the bytes that are left, so a damaged number cannot make the
  // loop long.
  const std::uint32_t losses = in.count(sizeof(float));
  for (std::uint32_t i = 0; i < losses; ++i) line.losses.push_back(std::bit_cast<float>(in.u32()));
  const std::uint8_t has_digest = in.u8();
  // Only 0 and 1 are written. Any other value shows damage.
  in.expect(has_digest <= 1, "params_digest");
  if (has_digest == 1) line.params_digest = in.digest();
  ES_RETURN_IF_ERROR(in.finish());
  return line;
}

Status Ledger::append(const JobId& job, const LedgerLine& line) {
  const std::string key = job_prefix(job).number(line.version).key();
  const Result<std::optional<std::string>> bytes = store_.get(key);
  if (!bytes) return bytes.error();
  // Two calls cannot both find no line, because one thread owns the ledger.
  if (!bytes->has_value()) {
    WriteBatch batch;
    batch.put(key, encode_ledger_line(line));
    return store_.write(batch, Durability::kBuffered);
  }
  const std::string name = line_name(job, line.version);
  const Result<LedgerLine> old_line = decode_ledger_line(**bytes, line.version, name);
  if (!old_line) return old_line.error();
  // A step is computed again after the loss of a worker. The second result must repeat the first
  // one.
  if (same_bits(*old_line, line)) return {};
  return failure(name + ": the job is not deterministic: the step gave, the second time, " +
                 difference(*old_line, line));
}

Result<std::vector<LedgerLine>> Ledger::read(const JobId& job, Version begin, Version end,
                                             std::size_t most) const {
  const std::size_t number_at = job_prefix(job).key().size();
  const auto decode = [&](std::string_view key, std::string_view value) {
    const Version version = decode_key_number(key.substr(number_at));
    return decode_ledger_line(value, version, line_name(job, version));
  };
  return scan_records<LedgerLine>(store_, job_prefix(job).number(begin).key(),
                                  job_prefix(job).number(end).key(), decode, most);
}

Result<std::optional<LedgerLine>> Ledger::last(const JobId& job) const {
  const std::string begin = job_prefix(job).key();
  const Result<std::optional<KeyValue>> found = store_.last(begin, prefix_end(begin));
  if (!found) return found.error();
  if (!found->has_value()) return std::optional<LedgerLine>();
  const Version version = decode_key_number(std::string_view((*found)->key).substr(begin.size()));
  Result<LedgerLine> line = decode_ledger_line((*found)->value, version, line_name(job, version));
  if (!line) return line.error();
  return std::optional<LedgerLine>(std::move(*line));
}

// The visitor must not write to the store, so the keys are collected first.
Status Ledger::add_erased(const std::string& begin, const std::string& end,
                          WriteBatch& batch) const {
  return store_.scan(begin, end, [&](std::string_view key, std::string_view) {
    batch.erase(std::string(key));
    return true;
  });
}

Status Ledger::rewind(const JobId& job, Version through) {
  WriteBatch batch;
  ES_RETURN_IF_ERROR(add_erased(job_prefix(job).number(through + 1).key(),
                                prefix_end(job_prefix(job).key()), batch));
  // One batch removes all of them or none. Synced: a line that an audit found wrong must not come
  // back after a power cut, or the repeated step would seem to differ from it.
  return store_.write(batch, Durability::kSynced);
}

Status Ledger::add_removal(const JobId& job, WriteBatch& batch) const {
  const std::string begin = job_prefix(job).key();
  return add_erased(begin, prefix_end(begin), batch);
}

}  // namespace es::store
