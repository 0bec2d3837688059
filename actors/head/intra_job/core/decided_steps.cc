#include "actors/head/intra_job/core/decided_steps.h"

namespace es::actors::intra_job {

void DecidedSteps::release(Version target) {
  if (!decides(context_.config.spec) || !context_.has_members_at_work()) return;
  if (generation_ != context_.record.generation) {
    generation_ = context_.record.generation;
    next_ = target;
  }
  const EvaluationBook& book = progress_.evaluations();
  const auto best = book.best();
  // No member holds a version before the target any more.
  const bool waits = best && best->version >= target && !checkpoints_.keep_best(best->version);
  for (auto at = book.all().lower_bound(next_); at != book.all().end(); ++at) {
    const auto& [version, evaluation] = *at;
    if ((waits && version >= best->version) || version >= context_.last_version) return;
    // Of sharded state the line of this version may come later, with the digest of the state.
    if (version > progress_.through()) return;
    context_.send_to_members(
        protocol::Decided{context_.stamp(), version, protocol::encode(evaluation.decided)});
    next_ = version + 1;
  }
}

}  // namespace es::actors::intra_job
