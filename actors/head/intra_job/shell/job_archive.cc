#include "actors/head/intra_job/shell/job_archive.h"

#include <bit>
#include <span>
#include <string_view>

#include "proto/base/kill_point.h"

namespace es::actors {
namespace {

protocol::LedgerLine known_line(const store::LedgerLine& line) {
  protocol::LedgerLine known{line.version, {}, line.params_digest.value_or(Digest{}), {}};
  for (const float loss : line.losses)
    known.loss_bits.push_back(std::bit_cast<std::uint32_t>(loss));
  return known;
}

protocol::Bytes bytes_of(const std::string& totals) {
  const auto bytes = std::as_bytes(std::span(totals));
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

}  // namespace

Result<StoredHistory> read_history(HeadStore& store, const JobId& job,
                                   const intra_job::Config& config) {
  StoredHistory history;
  const auto lines = store.ledger().read(job, config.start_version + 1, config.last_version + 1);
  if (!lines) return lines.error();
  auto evaluations = store.history().evaluations(job);
  if (!evaluations) return evaluations.error();
  history.evaluations = *std::move(evaluations);
  for (const auto& [version, totals] : history.evaluations)
    history.ledger.evaluations.emplace_back(version, bytes_of(totals));
  std::vector<protocol::LedgerLine>& known = history.ledger.lines;
  for (const store::LedgerLine& line : *lines) known.push_back(known_line(line));
  // The ledger on disk has no place for the digest of the whole state, so the newest one is stored
  // apart.
  const auto state = store.history().final_state(job);
  if (!state) return state.error();
  history.ledger.final_state = *state;
  return history;
}

void JobArchive::adopt(const JobRecord& record, std::uint64_t unix_ms) {
  auto refusals = std::move(record_.refusals);
  record_ = record;
  record_.refusals = std::move(refusals);
  if (is_over(record.state) && ended_unix_ms_ == 0) ended_unix_ms_ = unix_ms;
}

Status JobArchive::save() {
  kill_point("journal.before");
  ES_RETURN_IF_ERROR(store_->save(record_));
  kill_point("journal.after");
  return {};
}

Status JobArchive::save_refusals(std::vector<Refusal> refusals) {
  record_.refusals = std::move(refusals);
  return store_->save(record_);
}

Status JobArchive::save_end(const Msg<wire::JobDetails>& details) {
  const auto bytes = details.frame()->body.asChars();
  return store_->history().save_end(job(), {bytes.begin(), bytes.size()});
}

Status JobArchive::append(const protocol::LedgerLine& line) {
  store::LedgerLine stored{line.version, {}, line.params};
  if (line.state) ES_RETURN_IF_ERROR(store_->history().save_final_state(job(), *line.state));
  for (const std::uint32_t bits : line.loss_bits)
    stored.losses.push_back(std::bit_cast<float>(bits));
  kill_point("ledger.before");
  ES_RETURN_IF_ERROR(store_->ledger().append(job(), stored));
  kill_point("ledger.after");
  return {};
}

Status JobArchive::save_evaluation(Version version, const std::vector<std::byte>& totals) {
  const std::string_view bytes(reinterpret_cast<const char*>(totals.data()), totals.size());
  kill_point("evaluation.before");
  ES_RETURN_IF_ERROR(store_->history().save_evaluation(job(), version, bytes));
  kill_point("evaluation.after");
  return {};
}

Status JobArchive::rewind(Version through) {
  kill_point("rewind.before");
  ES_RETURN_IF_ERROR(store_->ledger().rewind(job(), through));
  ES_RETURN_IF_ERROR(store_->history().rewind(job(), through));
  kill_point("rewind.after");
  return {};
}

}  // namespace es::actors
