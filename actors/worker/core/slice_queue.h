#pragma once
// SliceQueue decides which time slice the device runs next, and which messages about it the ESTs
// and the data workers receive.
//
// It has no clock, no I/O and no actor. An event goes in, and effects come out in the order in
// which the shell must perform them. Not thread-safe; it has one owner.
//
// Invariants:
// * In one step, each rank runs once, and the ranks run in ascending order, whatever the order in
//   which their mini-batches arrive.
// * A slice runs only after its mini-batch has arrived.
// * Every slice that has arrived is answered with exactly one EndSlice, whether it has run or not,
//   so its EST gets the slot back.
// * After abandon(), or as soon as `abandoned_below` exceeds the generation of the step, no slice
//   of this step begins.
//
// `abandoned_below` is a parameter of the events that may start a slice: generations below this
// number are abandoned. The device half learns this number before the command that makes it call
// abandon(), because that command may wait in its mailbox.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/base/protocol/core/instant.h"
#include "proto/base/ids.h"

namespace es::actors::worker {

// The request of an EST to run its local step with the mini-batch in a slot of the batch pool.
struct Slice {
  Generation generation;
  Version step = 0;
  VirtualRank rank = 0;
  std::uint32_t slot = 0;
  std::string error{};  // not empty if the mini-batch could not be loaded
  // The number of this arrival, which the queue sets. It identifies the content of the slot until
  // EndSlice.
  std::uint64_t arrival = 0;
};

// --- effects ------------------------------------------------------------------------------------

// Grants one slice of `step` to the EST of each of these ranks. Each EST answers with a Slice.
struct GrantSlices {
  Generation generation;
  Version step = 0;
  RankRange ranks;
};

// Tells the EST of this rank that its slice is over, so it may return the slot.
struct EndSlice {
  Version step = 0;
  VirtualRank rank = 0;
  std::uint32_t slot = 0;
};

// Tells the data workers which slice the device runs next.
struct AnnounceSlice {
  Version step = 0;
  VirtualRank rank = 0;
};

// Handles the messages that have already arrived, and then calls resume().
struct YieldToMailbox {};

// The device computes nothing until the next slice arrives, or until the next step if
// `step_is_over`.
struct StayIdle {
  bool step_is_over = false;
};

using SliceEffect = std::variant<GrantSlices, EndSlice, AnnounceSlice, YieldToMailbox, StayIdle>;

// A slice to run. While it runs, the mini-batch of `following` can be copied to the device; no
// value means that it has not arrived or could not be loaded.
struct RunSlice {
  Slice slice;
  std::optional<Slice> following;
};

// What the shell does after an event: it performs the effects, and then runs the slice, if there is
// one, and calls finished() or failed().
struct SliceDecision {
  std::vector<SliceEffect> effects;
  std::optional<RunSlice> run;
};

// Messages about slices wake other threads, which takes as long as a local step of a small model.
// Therefore the ends of short slices are reported together, once in this compute time.
inline constexpr Instant kReportInterval = std::chrono::milliseconds(5);

class SliceQueue {
 public:
  // A step begins. Slices that are left from the previous step are ended. REQUIRES: no slice is
  // running, and `ranks` is not empty.
  SliceDecision begin(Generation generation, Version step, RankRange ranks);
  // An EST has sent a slice. A slice of another generation or step, or of a rank that has already
  // run, is ended at once.
  SliceDecision add(Slice slice, Generation abandoned_below);
  // The messages that had arrived before YieldToMailbox are handled.
  SliceDecision resume(Generation abandoned_below);
  // The running slice has ended well. `computed` is the compute time of this step until now; it
  // decides only when the ends of slices are reported. REQUIRES: a slice is running.
  SliceDecision finished(Instant computed, Generation abandoned_below);
  // The running slice has failed, so the step is given up. REQUIRES: a slice is running.
  SliceDecision failed();
  // The step is abandoned: all slices that have arrived are ended, and later ones are ended when
  // they arrive. REQUIRES: no slice is running.
  SliceDecision abandon();

 private:
  bool next_is_here() const { return waiting_.contains(next_rank_); }
  bool step_is_over() const { return next_rank_ == ranks_.end; }
  void close(SliceDecision& decision);
  void report_done(SliceDecision& decision);
  void announce_next(SliceDecision& decision) const;
  void yield_to_mailbox(SliceDecision& decision);
  void run_next(SliceDecision& decision);
  void stay_idle(SliceDecision& decision);

  bool open_ = false;  // a step has begun and is neither abandoned nor given up
  Generation generation_;
  Version step_ = 0;
  RankRange ranks_;
  VirtualRank next_rank_ = 0;
  std::map<VirtualRank, Slice> waiting_;
  std::optional<Slice> running_;
  std::vector<Slice> done_;     // no longer running, but not reported yet
  Instant computed_{};          // compute time of this step at the last finished()
  Instant last_reported_at_{};  // compute time at which done_ was last reported
  bool yielded_ = false;        // a YieldToMailbox has no resume() yet
  std::uint64_t arrivals_ = 0;
};

}  // namespace es::actors::worker
