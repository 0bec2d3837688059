#include "actors/head/intra_job/core/run_progress.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace es::actors::intra_job {

using namespace protocol;

RunProgress::RunProgress(JobContext& context, const LedgerHistory& history)
    : context_(context),
      ledger_(context.config.start_version),
      evaluations_(context.config, context.services),
      version_(context.config.start_version) {
  for (const auto& [version, totals] : history.evaluations)
    ES_CHECK(evaluations_.add(version, totals).ok());
  find_end();
  for (LedgerLine line : history.lines) {
    if (line.version == context.last_version) line.state = history.final_state;
    ES_CHECK(ledger_.add(line, Incarnation{}) == LedgerBook::Answer::kAdded);
  }
}

Result<bool> RunProgress::take(Worker& worker, const LedgerLine& line) {
  worker.version = std::max(worker.version.value_or(0), line.version);
  version_ = std::max(version_, line.version);
  // In a sparse ledger the versions before this one are not reported.
  if (context_.config.sparse_ledger) ledger_.skip_to(line.version - 1);
  if (lacks_state(line) && line.version == ledger_.through() + 1) {
    lines_without_state_.insert_or_assign(worker.incarnation, line);
    return false;
  }
  switch (ledger_.add(line, worker.incarnation)) {
    case LedgerBook::Answer::kAdded:
      for (const auto& [from, other] : std::exchange(lines_without_state_, {}))
        if (ledger_.add(other, from) == LedgerBook::Answer::kConflict)
          return failure(ledger_.conflict());
      // The line precedes every Acknowledge in the list of effects, so it is durable before workers
      // forget it.
      context_.emit(LedgerLineAdded{line});
      clock_.step(context_.now);
      // Only the last evaluation follows, which does not count as training time.
      if (ledger_.through() == context_.last_version) pause();
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

// Whether the digest of the state comes with the line of another member: of sharded state only the
// member that has gathered all moments knows it.
bool RunProgress::lacks_state(const LedgerLine& line) const {
  const Config& config = context_.config;
  return !config.shards.empty() && !line.state &&
         may_be_last(config.spec, line.version, config.last_version);
}

Status RunProgress::take(const Worker& worker, const Evaluated& evaluated) {
  const Result<bool> is_new = evaluations_.add(evaluated.version, evaluated.totals);
  if (!is_new)
    return failure(is_new.error().message + " on worker " +
                   std::to_string(worker.incarnation.value));
  if (!*is_new) return {};
  context_.emit(EvaluationAdded{evaluated.version, evaluated.totals});
  log_decision(evaluated.version);
  find_end();
  return {};
}

void RunProgress::log_decision(Version version) {
  if (evaluations_.last_reduction() == version)
    context_.log("the evaluation of version " + std::to_string(version) +
                 " lowers the learning rate");
  if (evaluations_.stop() == version && version < context_.config.last_version)
    context_.log("the evaluation of version " + std::to_string(version) + " ends the job: " +
                 context_.config.spec.stop.metric + " has not become better in " +
                 std::to_string(context_.config.spec.stop.patience) + " evaluations");
}

void RunProgress::find_end() {
  context_.last_version = std::min(evaluations_.stop().value_or(context_.config.last_version),
                                   context_.config.last_version);
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
  for (const auto& [version, evaluation] : evaluations_.all()) {
    const Version next = next_evaluation(std::max(through + 1, context_.config.start_version));
    if (version > next) break;
    through = std::max(through, version);
  }
  return through;
}

// Returns the first version that is evaluated, not before `version`.
Version RunProgress::next_evaluation(Version version) const {
  const Version every = context_.config.spec.eval_every;
  const Version last = context_.last_version;
  return every == 0 ? last : std::min((version + every - 1) / every * every, last);
}

// Returns whether the head knows the newest evaluation that members had to make before they could
// step to `version`; true if none was due.
bool RunProgress::is_evaluated_before(Version version) const {
  const Version every = context_.config.spec.eval_every;
  if (every == 0 || version == 0) return true;
  const Version due = (version - 1) / every * every;
  return due == 0 || due < context_.config.start_version || has_evaluated(due);
}

void RunProgress::go(std::size_t stage) {
  std::vector<std::string> devices;
  for (const Member& member : context_.members)
    devices.push_back(context_.fleet.find(member.incarnation)->device.text());
  clock_.go(context_.now, stage, context_.placement.text(), version_, std::move(devices));
}

void RunProgress::forget_after(Version version) {
  lines_without_state_.clear();
  ledger_.rewind(version);
  evaluations_.forget_after(version);
  find_end();
}

}  // namespace es::actors::intra_job
