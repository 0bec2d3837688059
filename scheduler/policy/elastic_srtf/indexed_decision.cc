#include "scheduler/policy/elastic_srtf/indexed_decision.h"

namespace es::scheduler {

IndexedDecision::IndexedDecision(const ClusterTable& table, const IndexedOrder& order,
                                 DecisionMemory& memory)
    : FullScanDecision(table, order, memory), order_(order), looks_at_all_(table.has_queues()) {}

void IndexedDecision::keep_paused_jobs() {
  if (order_.paused().empty()) return;
  if (!looks_at_all_ && keep_all_paused()) return;
  // Some paused job has to be served in its turn, so the jobs in a pause can no longer be treated
  // as one sum.
  looks_at_all_ = true;
  FullScanDecision::keep_paused_jobs();
}

// Lets all paused jobs keep their devices at once. Returns false, without a change, if not all of
// that is left.
bool IndexedDecision::keep_all_paused() {
  std::vector<QueueEntry> fixed;
  for (const QueueEntry& entry : order_.fixed())
    // These jobs have a target already, namely their minimum, so only the rest of what they hold is
    // needed for them.
    if (entry.paused && !entry.pinned) fixed.push_back(entry);
  const Counts& others = order_.paused_devices();
  Counts needed = others;
  for (const QueueEntry& entry : fixed)
    for (std::size_t t = 0; t < needed.size(); ++t)
      needed[t] += table_.held(entry.slot)[t] - targets_.of(entry.slot)[t];
  if (!covers(targets_.left(), needed)) return false;
  for (const QueueEntry& entry : fixed) keep_paused(entry);
  targets_.take(others);
  // The earliest end of a pause is the time to ask again.
  add_paused_devices(others, order_.paused().begin()->first);
  return true;
}

bool IndexedDecision::is_kept(const QueueEntry& entry) const {
  const bool is_paused = entry.paused && !entry.pinned;
  return FullScanDecision::is_kept(entry) || (!looks_at_all_ && is_paused);
}

void IndexedDecision::serve_in_order() {
  if (looks_at_all_) return FullScanDecision::serve_in_order();
  const std::size_t position = guarantee_position();
  std::size_t first = 0;  // position of the block's first entry
  for (const ServiceQueue::Block& block : order_.queue().blocks()) {
    if (first >= timely_.end) break;
    serve_block(block, first, position);
    first += block.entries.size();
  }
  if (position == timely_.end) serve_guaranteed();
  for (const QueueEntry& entry : timely_.moved) serve_turn(entry);
}

// The guaranteed job is served before the entry at `position` of the order.
void IndexedDecision::serve_block(const ServiceQueue::Block& block, std::size_t first,
                                  std::size_t position) {
  const std::size_t after = first + block.entries.size();
  const bool is_whole = after <= timely_.end && (position <= first || position >= after);
  if (first == position) serve_guaranteed();
  // A block may be passed only if all of its entries are served here, and the guaranteed job is not
  // served between two of them.
  if (is_whole && pass(block)) return;
  for (std::size_t i = 0; i < block.entries.size() && first + i < timely_.end; ++i) {
    if (i > 0 && first + i == position) serve_guaranteed();
    serve_turn(block.entries[i]);
  }
}

// Whether all jobs of the block surely keep what they hold, if anything. If so, their devices are
// taken from what is left, and the block is passed as a whole.
bool IndexedDecision::pass(const ServiceQueue::Block& block) {
  // Without anything left no job gets more. Only a job that holds devices and may lose them needs a
  // look.
  if (nothing_left()) return block.preemptible == 0;
  if ((block.improvable_types & types_left()) != 0) return false;
  if (!covers(targets_.left(), block.reassignable)) return false;
  targets_.take(block.reassignable);
  return true;
}

std::uint64_t IndexedDecision::types_left() const {
  std::uint64_t bits = 0;
  for (std::size_t t = 0; t < targets_.left().size(); ++t)
    if (targets_.left()[t] > 0) bits |= type_bit(t);
  return bits;
}

void IndexedDecision::serve(const QueueEntry& entry) {
  const JobRow& row = table_.rows()[entry.slot];
  // left() does not contain what a job with a target, such as a minimum, was given already. The
  // tests below compare with left() alone, so they are for jobs without a target.
  if (has_no_target(entry.slot)) {
    if (entry.at_optimum && keep_held(entry)) return;
    if (!looks_at_all_ && (entry.improvable_types & types_left()) == 0)
      if (!entry.holds || keep_held(entry)) return;
    if (surely_keeps(table_, row, targets_.left()) && keep_held(entry)) return;
  }
  const Counts left = choices_of(entry.slot);
  if (surely_gets_nothing(table_, row, left)) return reserve_until_pauses_end(entry, left);
  FullScanDecision::serve(entry);
}

}  // namespace es::scheduler
