#pragma once
// ServiceOrder: the order in which elastic-srtf serves its jobs (elastic_srtf.h defines it), kept
// from one decision to the next.
//
// What a job's place depends on is written as a few numbers when its row changes: where its
// remaining work was, and how fast it falls. A decision then costs some multiplications for each
// job and what is out of order since the last one. The order is a total one, so it does not depend
// on the order before.
//
// Not thread-safe.
#include <cstdint>
#include <limits>
#include <vector>

#include "scheduler/policy/board.h"
#include "scheduler/policy/outlook.h"

namespace es::scheduler {

// Classes of service, first served first.
enum class Service : std::uint8_t { kUrgent, kOverdue, kAged, kCritical, kOrdinary };

// One job in the order of service.
struct Place {
  std::int64_t rank = 0;  // of priority and class together: smaller first
  double key = 0;         // smaller first, within the class
  std::uint64_t number = 0;
  std::uint32_t slot = 0;
  bool pinned = false;
  bool keeps_minimum = false;  // may not be suspended, and runs
  bool holds = false;          // some devices
  bool paused = false;         // it holds devices and stands still for a change of them
  bool best_off = false;       // nothing is faster than what it holds
  double alone_s = 0;          // Board::kUnknownSteps: not known
  Task task = {};

  Service service() const { return static_cast<Service>(rank & 7); }
  std::int64_t priority_rank() const { return rank >> 3; }  // smaller: higher priority
  void set_service(Service service) {
    rank = (rank & ~std::int64_t{7}) | static_cast<std::int64_t>(service);
  }
  bool operator<(const Place& o) const {
    if (rank != o.rank) return rank < o.rank;
    if (key != o.key) return key < o.key;
    return number < o.number;
  }
};

// Asks for an element of a large table that will be read soon, in an order that the processor
// cannot guess. Changes nothing.
template <class T>
void fetch(const std::vector<T>& elements, std::size_t index) {
  if (index >= elements.size()) return;
  const char* const first = reinterpret_cast<const char*>(&elements[index]);
  for (std::size_t at = 0; at < sizeof(T); at += 64) __builtin_prefetch(first + at);
}

class ServiceOrder {
 public:
  explicit ServiceOrder(double rho_max) : rho_max_(rho_max) {}

  // Takes over the rows that the board has written by its last update. REQUIRES: called after every
  // update of the board.
  void update(const Board& board);
  // Puts all jobs in order, as of the board's time.
  void arrange(const Board& board);

  // In the order of service. Whoever changes the order makes the next arrange() slower, no more.
  std::vector<Place>& places() { return places_; }
  // Of the last arrange():
  double horizon_s() const { return horizon_s_; }  // no schedule is done before this
  double backlog_s() const { return backlog_s_; }  // work of all jobs, seconds of the whole cluster
  double widths() const { return widths_; }        // of all jobs together
  double again_s() const { return again_s_; }      // when some waiting job may age, or kNever

 private:
  // What is written when a row changes. Seconds, but where it says otherwise.
  struct Line {
    std::uint64_t number = 0;
    bool present = false;
    bool placed = false;    // it has an element in places_
    bool arriving = false;  // the slot is listed in arrived_
    bool known = false;     // length and speed are
    bool holds = false;
    bool pinned = false;
    bool keeps_minimum = false;
    bool best_off = false;
    std::int64_t priority_rank = 0;
    double alone_s = 0;      // with its best devices, at from_s
    double alone_falls = 0;  // per second, from from_s on
    double from_s = 0;
    double width = 0;  // of the cluster
    double submit_s = 0;
    double paused_until_s = 0;  // -kNever when it holds nothing
    double pause_s = 0;         // a change of its devices costs
    double key_s = 0;           // to be added to alone_s for the key
    double fair_alone_s = 0;    // from start to end, were the cluster its own
    double fair_shared_s = 0;   // as much with all speeds there are, times the number of jobs
    double job_seconds_at_submit = 0;
    double deadline_s = kNever;
  };

  void write(const Board& board, std::size_t slot);
  void refresh(const Board& board, Place& place);
  void refresh_unknown(const Board& board, const Line& line, Place& place);
  void age(const Board& board, const Line& line, double more_s, double fair_s, Place& place);
  void mark_critical();
  void sort();

  const double rho_max_;
  std::vector<Line> lines_;           // by slot
  std::vector<std::size_t> arrived_;  // slots of jobs that may have no place yet; each once
  std::vector<Place> places_;
  double horizon_s_ = 0, backlog_s_ = 0, widths_ = 0;
  double again_s_ = kNever;
};

}  // namespace es::scheduler
