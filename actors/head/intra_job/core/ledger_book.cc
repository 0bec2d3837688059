#include "actors/head/intra_job/core/ledger_book.h"

#include <bit>

#include "proto/base/check.h"

namespace es::actors::intra_job {

using protocol::LedgerLine;

LedgerBook::Answer LedgerBook::add(const LedgerLine& line, Incarnation from) {
  // Lines before the start of the run have no entry to compare with.
  if (line.version <= start_ || line.version > through() + 1) return Answer::kGap;
  const Digest losses = digest_of(std::as_bytes(std::span(line.loss_bits)));
  if (line.version == through() + 1) {
    entries_.push_back({line.params, losses, from});
    if (!first_) first_ = line;
    last_ = line;
    return Answer::kAdded;
  }
  const Entry& entry = entries_[line.version - start_ - 1];
  const bool is_last = line.version == last_->version;
  const bool state_differs = line.state && is_last && last_->state && last_->state != line.state;
  // Only the last version of a job has a digest of its whole state, which is compared too.
  if (entry.params == line.params && entry.losses == losses && !state_differs) {
    if (is_last && line.state)
      last_ = line;  // after a restart of the head the first line had no state
    return Answer::kRepeated;
  }
  const bool params_differ = entry.params != line.params;
  const auto shown = [&](const Digest& params, const Digest& other) {
    return params_differ ? "digest " + params.hex()
                         : "digest of the losses or state " + other.hex();
  };
  const Digest before = state_differs ? last_->state.value_or(Digest()) : entry.losses;
  conflict_ = "non-deterministic: step " + std::to_string(line.version) + ": " +
              shown(entry.params, before) + " on worker " + std::to_string(entry.from.value) +
              ", " + shown(line.params, state_differs ? *line.state : losses) + " on worker " +
              std::to_string(from.value);
  return Answer::kConflict;
}

void LedgerBook::skip_to(Version version) {
  if (version <= through()) return;
  entries_.clear();
  start_ = version;
}

void LedgerBook::rewind(Version version) {
  ES_CHECK(version >= start_ && version <= through());
  if (version == through()) return;
  entries_.resize(version - start_);
  if (entries_.empty()) first_.reset();
  // Of the line that is now the last one only digests are left. Its losses are not shown until the
  // next line arrives.
  last_.reset();
  if (!entries_.empty()) last_ = LedgerLine{version, {}, entries_.back().params, {}};
}

double mean_loss(const LedgerLine& line) {
  double sum = 0;
  for (const std::uint32_t bits : line.loss_bits) sum += std::bit_cast<float>(bits);
  return line.loss_bits.empty() ? 0 : sum / static_cast<double>(line.loss_bits.size());
}

}  // namespace es::actors::intra_job
