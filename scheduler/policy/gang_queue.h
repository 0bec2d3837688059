#pragma once
// GangQueue: `srtf` (gang.h) without looking at every job.
//
// The gang of a job is of one type, so each type is decided on its own. A running job has its end
// as key, which stays where it is as time passes; a job that stands still has its remaining time.
// So both are kept sorted, and a decision merges them: of running jobs only the devices that those
// before some other job hold are asked for, and of waiting jobs with equally many devices none
// behind the first one that does not fit.
//
// It knows jobs that run on their gang or hold nothing, and may be suspended. While there are
// others (has_others) somebody else must decide. Not thread-safe.
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/policy/place_list.h"

namespace es::scheduler {

// Where a job is in the order of srtf, ascending: higher priority, less to do, those that run, and
// submit order.
struct GangPlace {
  std::int64_t priority_rank = 0;
  double end_s = 0;  // on its gang from now on, or as it does
  bool stands = false;
  double left_s = 0;  // 0 of a job that does not stand still
  std::uint64_t number = 0;
  auto operator<=>(const GangPlace&) const = default;
};
// `gang`: its gang_of(). A job that holds something else stands still.
GangPlace gang_place(const Board& board, const Board::Row& row, const Counts& gang);

class GangQueue {
 public:
  // Takes over the rows that the board has written by its last update. REQUIRES: called after every
  // update of the board.
  void update(const Board& board);
  bool has_others() const { return others_ > 0; }
  // REQUIRES: not has_others().
  Decisions decide(const Board& board);

 private:
  enum class State : std::uint8_t { kAbsent, kRuns, kPaused, kWaits, kOther };
  struct Entry {
    State state = State::kAbsent;
    std::size_t type = 0;
    std::uint32_t devices = 0;
    Place place;
    double from_s = 0;  // of kPaused: it runs from then on
  };
  using Line = std::set<Place>;
  struct Queue {
    PlaceList running;                      // by end_s
    Line paused;                            // by left_s
    std::map<std::uint32_t, Line> waiting;  // by devices, then by left_s; no empty ones
  };
  friend class QueueWalk;

  void write(const Board& board, std::size_t slot);
  void enter(std::size_t slot);
  void erase(std::size_t slot);

  std::vector<Entry> entries_;                       // by slot
  std::vector<Queue> queues_;                        // by type
  std::set<std::pair<double, std::size_t>> pauses_;  // from_s and slots of those that are paused
  std::size_t others_ = 0;
};

}  // namespace es::scheduler
