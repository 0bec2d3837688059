#include "store/journal/job_history.h"

#include "store/kv/keys.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

KeyBuilder evaluations_of(const JobId& job) {
  KeyBuilder key("evaluation");
  key.text(job);
  return key;
}

std::string state_key(const JobId& job) {
  return KeyBuilder("final_state").text(job).key();
}

std::string end_key(const JobId& job) {
  return KeyBuilder("end").text(job).key();
}

}  // namespace

Status JobHistory::save_evaluation(const JobId& job, Version version, std::string_view totals) {
  WriteBatch batch;
  batch.put(evaluations_of(job).number(version).key(), std::string(totals));
  return store_.write(batch, Durability::kBuffered);
}

Result<std::vector<std::pair<Version, std::string>>> JobHistory::evaluations(
    const JobId& job) const {
  using Entry = std::pair<Version, std::string>;
  // The id in the key ends with a zero byte, so the range of job "a-1" contains no key of job
  // "a-10", and exactly the 8 bytes of the version follow.
  const std::string begin = evaluations_of(job).key();
  return scan_records<Entry>(store_, begin, prefix_end(begin),
                             [&](std::string_view key, std::string_view value) -> Result<Entry> {
                               return Entry(decode_key_number(key.substr(begin.size())), value);
                             });
}

// The visitor must not write to the store, so the keys are collected in a batch that is written
// after the scan.
Status JobHistory::add_erased_evaluations(const JobId& job, Version from, WriteBatch& batch) const {
  return store_.scan(evaluations_of(job).number(from).key(), prefix_end(evaluations_of(job).key()),
                     [&](std::string_view key, std::string_view) {
                       batch.erase(std::string(key));
                       return true;
                     });
}

Status JobHistory::rewind(const JobId& job, Version through) {
  WriteBatch batch;
  ES_RETURN_IF_ERROR(add_erased_evaluations(job, through + 1, batch));
  // Not synced here. The record keeps its mark `rewinding` until a later write removes it, and that
  // write is synced, which makes this one durable too. Until then a new head rewinds again.
  return store_.write(batch, Durability::kBuffered);
}

Status JobHistory::save_final_state(const JobId& job, const Digest& state) {
  WriteBatch batch;
  batch.put(state_key(job), state.hex());
  return store_.write(batch, Durability::kBuffered);
}

Result<std::optional<Digest>> JobHistory::final_state(const JobId& job) const {
  const auto hex = store_.get(state_key(job));
  if (!hex) return hex.error();
  // A head refuses to start with any other text (check_records), so parse() has a value here.
  return hex->has_value() ? Digest::parse(**hex) : std::nullopt;
}

Status JobHistory::save_end(const JobId& job, std::string_view details) {
  WriteBatch batch;
  batch.put(end_key(job), std::string(details));
  return store_.write(batch, Durability::kBuffered);
}

Result<std::optional<std::string>> JobHistory::end(const JobId& job) const {
  return store_.get(end_key(job));
}

Status JobHistory::add_removal(const JobId& job, WriteBatch& batch) const {
  batch.erase(state_key(job));
  batch.erase(end_key(job));
  return add_erased_evaluations(job, 0, batch);
}

}  // namespace es::store
