#include "actors/worker/core/slice_queue.h"

#include <utility>

#include "proto/base/check.h"

namespace es::actors::worker {
namespace {

EndSlice end_of(const Slice& slice) {
  return {slice.step, slice.rank, slice.slot};
}

}  // namespace

SliceDecision SliceQueue::begin(Generation generation, Version step, RankRange ranks) {
  ES_CHECK(!running_ && !ranks.empty());
  SliceDecision decision;
  close(decision);
  open_ = true;
  generation_ = generation;
  step_ = step;
  ranks_ = ranks;
  next_rank_ = ranks.begin;
  computed_ = last_reported_at_ = Instant();
  announce_next(decision);
  decision.effects.emplace_back(GrantSlices{generation, step, ranks});
  return decision;
}

SliceDecision SliceQueue::add(Slice slice, Generation abandoned_below) {
  const bool current = open_ && slice.generation == generation_ && slice.step == step_ &&
                       generation_ >= abandoned_below;
  // A slice of another step, or of a rank that has run, is answered at once, so that its EST
  // returns the slot. A slot that is never returned would be missing in the pool of mini-batches.
  if (!current || slice.rank < next_rank_) return {.effects = {end_of(slice)}};
  slice.arrival = ++arrivals_;
  const VirtualRank rank = slice.rank;
  waiting_[rank] = std::move(slice);
  SliceDecision decision;
  // The slice does not run at once: the slice of the following rank may be in the mailbox already,
  // and its mini-batch can be copied to the device only if it is known when this one begins.
  if (next_is_here()) yield_to_mailbox(decision);
  return decision;
}

SliceDecision SliceQueue::resume(Generation abandoned_below) {
  yielded_ = false;
  SliceDecision decision;
  if (!next_is_here()) return decision;
  // The generation may have been abandoned after this message was sent.
  if (generation_ < abandoned_below)
    stay_idle(decision);
  else
    run_next(decision);
  return decision;
}

SliceDecision SliceQueue::finished(Instant computed, Generation abandoned_below) {
  ES_CHECK(running_);
  done_.push_back(*std::exchange(running_, std::nullopt));
  ++next_rank_;
  computed_ = computed;
  SliceDecision decision;
  // The ends of short slices are reported in groups, so that not every slice costs messages.
  if (computed_ >= last_reported_at_ + kReportInterval) report_done(decision);
  const VirtualRank following = next_rank_ + 1;
  if (!next_is_here() || generation_ < abandoned_below)
    stay_idle(decision);
  else if (following != ranks_.end && !waiting_.contains(following))
    // The following slice may be in the mailbox (see add).
    yield_to_mailbox(decision);
  else
    run_next(decision);
  return decision;
}

SliceDecision SliceQueue::failed() {
  ES_CHECK(running_);
  // The EST gets its slot back, as after a slice that succeeded.
  done_.push_back(*std::exchange(running_, std::nullopt));
  return abandon();
}

SliceDecision SliceQueue::abandon() {
  ES_CHECK(!running_);
  SliceDecision decision;
  close(decision);
  open_ = false;
  return decision;
}

void SliceQueue::close(SliceDecision& decision) {
  report_done(decision);
  for (const auto& [rank, slice] : waiting_) decision.effects.emplace_back(end_of(slice));
  waiting_.clear();
}

void SliceQueue::report_done(SliceDecision& decision) {
  if (done_.empty()) return;
  for (const Slice& slice : done_) decision.effects.emplace_back(end_of(slice));
  done_.clear();
  announce_next(decision);
  last_reported_at_ = computed_;
}

// After the last rank, the first rank of the next step is announced. This is a prediction: the
// next step may have other ranks, and begin() then announces the right one.
void SliceQueue::announce_next(SliceDecision& decision) const {
  decision.effects.emplace_back(step_is_over() ? AnnounceSlice{step_ + 1, ranks_.begin}
                                               : AnnounceSlice{step_, next_rank_});
}

void SliceQueue::yield_to_mailbox(SliceDecision& decision) {
  if (!std::exchange(yielded_, true)) decision.effects.emplace_back(YieldToMailbox{});
}

void SliceQueue::run_next(SliceDecision& decision) {
  running_ = std::move(waiting_.extract(next_rank_).mapped());
  RunSlice run{*running_, std::nullopt};
  const auto following = waiting_.find(next_rank_ + 1);
  // The mini-batch of the following slice is copied to the device while this one computes. A slice
  // whose mini-batch could not be loaded has nothing to copy; it fails when its turn comes.
  const bool usable = following != waiting_.end() && following->second.error.empty();
  if (usable) run.following = following->second;
  decision.run = std::move(run);
}

void SliceQueue::stay_idle(SliceDecision& decision) {
  decision.effects.emplace_back(StayIdle{step_is_over()});
  report_done(decision);
}

}  // namespace es::actors::worker
