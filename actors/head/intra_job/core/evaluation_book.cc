#include "actors/head/intra_job/core/evaluation_book.h"

#include <utility>

namespace es::actors::intra_job {

Result<bool> EvaluationBook::add(Version version, const protocol::Bytes& totals) {
  const Digest digest = digest_of(*totals);
  const auto [at, is_new] = evaluations_.try_emplace(version);
  if (!is_new && at->second.digest != digest)
    return failure("non-deterministic: evaluation of version " + std::to_string(version) +
                   ": results with digest " + at->second.digest.hex() + " before, " + digest.hex());
  if (!is_new) return false;
  at->second.digest = digest;
  if (!decides_) return true;
  at->second.metric = services_.metrics(totals);
  decide_from(at);
  return true;
}

// Evaluations that come late change what later ones have decided.
void EvaluationBook::decide_from(std::map<Version, Evaluation>::iterator at) {
  const JobSpec& spec = config_.spec;
  for (; at != evaluations_.end(); ++at) {
    auto& [version, evaluation] = *at;
    evaluation.decided = protocol::decide(spec, before(version), evaluation.metric);
    evaluation.best =
        at == evaluations_.begin() ? std::optional<Best>() : std::prev(at)->second.best;
    if (spec.checkpoint.keep_best.empty()) continue;
    const double value = evaluation.metric(spec.checkpoint.keep_best);
    const std::optional<double> best =
        evaluation.best ? std::optional(evaluation.best->value) : std::nullopt;
    if (protocol::is_best(spec, value, best)) evaluation.best = Best{version, value};
  }
}

void EvaluationBook::forget_after(Version version) {
  evaluations_.erase(evaluations_.upper_bound(version), evaluations_.end());
}

const protocol::Decisions& EvaluationBook::before(Version version) const {
  const auto at = evaluations_.lower_bound(version);
  return at == evaluations_.begin() ? config_.start_decisions : std::prev(at)->second.decided;
}

std::optional<Version> EvaluationBook::stop() const {
  for (const auto& [version, evaluation] : evaluations_)
    if (protocol::stops(config_.spec, evaluation.decided)) return version;
  return std::nullopt;
}

std::optional<EvaluationBook::Best> EvaluationBook::best() const {
  return evaluations_.empty() ? std::nullopt : evaluations_.rbegin()->second.best;
}

std::optional<Version> EvaluationBook::last_reduction() const {
  for (auto at = evaluations_.rbegin(); at != evaluations_.rend(); ++at)
    if (at->second.decided.reductions > before(at->first).reductions) return at->first;
  return std::nullopt;
}

}  // namespace es::actors::intra_job
