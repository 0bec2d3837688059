#include "actors/head/intra_job/core/run_progress.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace es::actors::intra_job {

using namespace protocol;

RunProgress::RunProgress(JobContext& context, const LedgerHistory& history)
    : context_(context),
      ledger_(context.config.start_version),
      version_(context.config.start_version) {
  for (const LedgerLine& line : history.lines)
    ES_CHECK(ledger_.add(line, Incarnation{}) == LedgerBook::Answer::kAdded);
  evaluations_.insert(history.evaluations.begin(), history.evaluations.end());
}

Result<bool> RunProgress::take(Worker& worker, const LedgerLine& line) {
  worker.version = std::max(worker.version.value_or(0), line.version);
  version_ = std::max(version_, line.version);
  // In a sparse ledger the versions before this one are not reported.
  if (context_.config.sparse_ledger) ledger_.skip_to(line.version - 1);
  switch (ledger_.add(line, worker.incarnation)) {
    case LedgerBook::Answer::kAdded:
      // The line precedes every Acknowledge in the list of effects, so it is durable before workers
      // forget it.
      context_.emit(LedgerLineAdded{line});
      clock_.step(context_.now);
      // Only the last evaluation follows, which does not count as training time.
      if (ledger_.through() == context_.config.last_version) pause();
      return true;
    // Every member reports each version, so most lines are repetitions. They were compared, and
    // need not be stored.
    case LedgerBook::Answer::kRepeated:
      break;
    case LedgerBook::Answer::kGap:
      context_.warn("worker " + std::to_string(worker.incarnation.value) + " reported version " +
                    std::to_string(line.version) + ", but the ledger ends at version " +
                    std::to_string(ledger_.through()));
      break;
    case LedgerBook::Answer::kConflict:
      return failure(ledger_.conflict());
  }
  return false;
}

Status RunProgress::take(const Worker& worker, const Evaluated& evaluated) {
  const Digest digest = digest_of(*evaluated.totals);
  const auto [before, is_new] = evaluations_.emplace(evaluated.version, digest);
  if (is_new) {
    context_.emit(EvaluationAdded{evaluated.version, evaluated.totals});
    return {};
  }
  if (before->second == digest) return {};
  return failure("non-deterministic: evaluation of version " + std::to_string(evaluated.version) +
                 ": results with digest " + before->second.hex() + " before, " + digest.hex() +
                 " on worker " + std::to_string(worker.incarnation.value));
}

void RunProgress::acknowledge() {
  if (ledger_.through() < acknowledged_ + context_.config.acknowledge_every) return;
  // An Acknowledge also makes workers forget their evaluations of earlier versions.
  if (!is_evaluated_before(ledger_.through())) return;
  acknowledged_ = ledger_.through();
  context_.send_to_members(Acknowledge{context_.stamp(), acknowledged_});
}

// An evaluation that a worker made while the head was away must still be reported, even if a later
// one is known already.
Version RunProgress::evaluated_through() const {
  Version through = 0;
  for (const auto& [version, digest] : evaluations_) {
    const Version next = next_evaluation(std::max(through + 1, context_.config.start_version));
    if (version > next) break;
    through = std::max(through, version);
  }
  return through;
}

// Returns the first version that is evaluated, not before `version`.
Version RunProgress::next_evaluation(Version version) const {
  const Version every = context_.config.spec.eval_every;
  const Version last = context_.config.last_version;
  return every == 0 ? last : std::min((version + every - 1) / every * every, last);
}

// Returns whether the head knows the newest evaluation that members had to make before they could
// step to `version`; true if none was due.
bool RunProgress::is_evaluated_before(Version version) const {
  const Version every = context_.config.spec.eval_every;
  if (every == 0 || version == 0) return true;
  const Version due = (version - 1) / every * every;
  return due == 0 || due < context_.config.start_version || evaluations_.contains(due);
}

void RunProgress::go(std::size_t stage) {
  std::vector<std::string> devices;
  for (const Member& member : context_.members)
    devices.push_back(context_.fleet.find(member.incarnation)->device.text());
  clock_.go(context_.now, stage, context_.placement.text(), version_, std::move(devices));
}

void RunProgress::forget_after(Version version) {
  ledger_.rewind(version);
  evaluations_.erase(evaluations_.upper_bound(version), evaluations_.end());
}

}  // namespace es::actors::intra_job
