#pragma once
// EvaluationBook has the evaluations of a job and what follows from them
// (actors/base/protocol/core/decisions.h). Its answers are a pure function of the evaluations that
// it was given, whatever their order.
//
// Memory: some 100 bytes for each evaluation of the run.
#include <map>
#include <optional>
#include <string>

#include "actors/base/protocol/core/decisions.h"
#include "actors/head/intra_job/core/job_events.h"

namespace es::actors::intra_job {

class EvaluationBook {
 public:
  // Both must outlive the book.
  EvaluationBook(const Config& config, const Services& services)
      : config_(config), services_(services), decides_(decides(config.spec)) {}

  struct Best {
    Version version = 0;
    double value = 0;  // of checkpoint.keep_best
  };
  struct Evaluation {
    Digest digest;  // of the totals
    protocol::MetricValue metric;
    protocol::Decisions decided;  // with this evaluation
    std::optional<Best> best;     // up to this evaluation
  };

  // Adds an evaluation. Returns whether it is new. Error: it differs from an earlier one of this
  // version, so the job is not deterministic.
  Result<bool> add(Version version, const protocol::Bytes& totals);
  // Forgets the evaluations after this version.
  void forget_after(Version version);

  const std::map<Version, Evaluation>& all() const { return evaluations_; }
  // What the evaluations before this version have decided.
  const protocol::Decisions& before(Version version) const;
  // The first version whose evaluation ends the job; nullopt: none does.
  std::optional<Version> stop() const;
  // The best evaluated version; nullopt if the job does not look for one, or has no value of it.
  std::optional<Best> best() const;
  // The version whose evaluation has lowered the learning rate last; nullopt: none has.
  std::optional<Version> last_reduction() const;

 private:
  void decide_from(std::map<Version, Evaluation>::iterator at);

  const Config& config_;
  const Services& services_;
  const bool decides_;
  std::map<Version, Evaluation> evaluations_;
};

}  // namespace es::actors::intra_job
