#pragma once
// RunProgress records the progress of a job: the ledger lines and evaluations that workers have
// reported, which of them were acknowledged, and how long each placement trained.
//
// Invariants: a ledger line or an evaluation is forwarded once. A repetition must be equal bit by
// bit; otherwise the job is non-deterministic and has to fail.
#include <optional>
#include <string>

#include "actors/head/intra_job/core/evaluation_book.h"
#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/ledger_book.h"
#include "actors/head/intra_job/core/stage_clock.h"

namespace es::actors::intra_job {

class RunProgress {
 public:
  // Begins with what an earlier head has stored. REQUIRES: the lines of `history` are consistent.
  RunProgress(JobContext& context, const LedgerHistory& history);

  const LedgerBook& ledger() const { return ledger_; }
  const EvaluationBook& evaluations() const { return evaluations_; }
  const StageClock& clock() const { return clock_; }
  // All ledger lines up to this version are known.
  Version through() const { return ledger_.through(); }
  // The version from which the job continues, as far as the head knows. It is less than through()
  // after all workers that held the newest version were lost; then the steps in between are
  // computed again.
  Version version() const { return version_; }
  void set_version(Version version) { version_ = version; }

  // Takes a ledger line. Returns whether it is new. Error: it differs from an earlier line of this
  // version, so the job must fail.
  Result<bool> take(Worker& worker, const protocol::LedgerLine& line);
  // Takes an evaluation. Error: it differs from an earlier one of this version. One that ends the
  // job early changes JobContext::last_version.
  Status take(const Worker& worker, const protocol::Evaluated& evaluated);

  // Lets members forget what is stored, every Config::acknowledge_every versions.
  void acknowledge();
  // The members know everything up to through(), because Install told them.
  void set_acknowledged() { acknowledged_ = ledger_.through(); }

  // Returns the newest version up to which all due evaluations are known.
  Version evaluated_through() const;
  bool has_evaluated(Version version) const { return evaluations_.all().contains(version); }
  // Returns whether members that hold this version have to evaluate it, as far as the head knows.
  bool awaits_evaluation(Version version) const {
    return version > 0 && next_evaluation(version) == version && !has_evaluated(version);
  }

  // Forgets lines and evaluations after `version`, because they may be spoiled. So they do not end
  // the job any more.
  void forget_after(Version version);

  void pause(PauseCause cause = PauseCause::kChange) { clock_.pause(context_.now, cause); }
  void go(std::size_t stage);

 private:
  Version next_evaluation(Version version) const;
  bool is_evaluated_before(Version version) const;
  void log_decision(Version version);
  void find_end();
  bool lacks_state(const protocol::LedgerLine& line) const;

  JobContext& context_;
  LedgerBook ledger_;
  // Of the next version, by worker. They are compared when the line with the digest has come.
  std::map<Incarnation, protocol::LedgerLine> lines_without_state_;
  EvaluationBook evaluations_;
  Version version_;
  Version acknowledged_ = 0;
  StageClock clock_;
};

}  // namespace es::actors::intra_job
