#include "scheduler/policy/gang/gang_queue.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <span>

#include "scheduler/policy/common/choice.h"

namespace es::scheduler {
namespace {

using Row = Board::Row;

bool holds_gang(const Board& board, const Row& row, const Counts& gang) {
  const auto held = board.held(row.slot);
  return row.held_total > 0 && std::equal(held.begin(), held.end(), gang.begin());
}

}  // namespace

GangPlace gang_place(const Board& board, const Row& row, const Counts& gang) {
  GangPlace place{.priority_rank = -std::int64_t{row.priority}, .number = row.number};
  const double speed = speed_on(board, row, gang);
  if (speed > 0 && holds_gang(board, row, gang) && board.now_s() >= row.progress_from_s) {
    place.end_s = row.progress_from_s + row.remaining_steps / speed;
    return place;
  }
  place.stands = true;
  place.left_s = speed > 0 ? row.remaining_steps / speed : Board::kUnknownSteps;
  place.end_s = board.now_s() + place.left_s;
  return place;
}

void GangQueue::update(const Board& board) {
  if (queues_.size() != board.types() || entries_.size() > board.rows().size()) {  // another view
    *this = {};
    queues_.resize(board.types());
    for (Queue& queue : queues_) queue.running.clear(1);
  }
  entries_.resize(board.rows().size());
  for (const std::size_t slot : board.written()) write(board, slot);
  while (!pauses_.empty() && pauses_.begin()->first <= board.now_s())
    write(board, pauses_.begin()->second);
}

void GangQueue::write(const Board& board, std::size_t slot) {
  erase(slot);
  const Row& row = board.rows()[slot];
  if (!row.present) return;
  Entry& entry = entries_[slot];
  const Counts gang = gang_of(board, row);
  const auto chosen = std::find_if(gang.begin(), gang.end(), [](std::uint32_t n) { return n > 0; });
  const bool runs = holds_gang(board, row, gang);
  if (row.pinned || (row.held_total > 0 && !(runs && row.may_suspend))) {
    entry.state = State::kOther;
    ++others_;
    return;
  }
  if (chosen == gang.end()) return;  // the job cannot run
  const GangPlace place = gang_place(board, row, gang);
  entry.type = static_cast<std::size_t>(chosen - gang.begin());
  entry.devices = *chosen;
  entry.place.rank = place.priority_rank;
  entry.place.key = ascending(place.stands ? place.left_s : place.end_s);
  entry.place.number = row.number;
  entry.place.slot = static_cast<std::uint32_t>(slot);
  entry.place.holds = row.held_total > 0;
  entry.from_s = row.progress_from_s;
  entry.state = !runs ? State::kWaits : place.stands ? State::kPaused : State::kRuns;
  enter(slot);
}

void GangQueue::enter(std::size_t slot) {
  const Entry& entry = entries_[slot];
  Queue& queue = queues_[entry.type];
  if (entry.state == State::kRuns) {
    queue.running.insert(entry.place, std::span(&entry.devices, 1));
  } else if (entry.state == State::kPaused) {
    queue.paused.insert(entry.place);
    pauses_.emplace(entry.from_s, slot);
  } else {
    queue.waiting[entry.devices].insert(entry.place);
  }
}

void GangQueue::erase(std::size_t slot) {
  Entry& entry = entries_[slot];
  if (entry.state == State::kOther) --others_;
  if (entry.state == State::kRuns) queues_[entry.type].running.erase(entry.place);
  if (entry.state == State::kPaused) {
    queues_[entry.type].paused.erase(entry.place);
    pauses_.erase({entry.from_s, slot});
  }
  if (entry.state == State::kWaits) {
    auto& waiting = queues_[entry.type].waiting;
    const auto line = waiting.find(entry.devices);
    line->second.erase(entry.place);
    if (line->second.empty()) waiting.erase(line);
  }
  entry = {};
}

// The decision for one type.
class QueueWalk {
 public:
  QueueWalk(const GangQueue& all, std::size_t type, const Board& board, Decisions& result)
      : entries_(all.entries_),
        queue_(all.queues_[type]),
        board_(board),
        type_(type),
        left_(board.supply()[type]),
        free_(board.free()[type]),
        result_(result) {
    if (!queue_.paused.empty()) heads_.push_back({queue_.paused.begin(), queue_.paused.end()});
    for (const auto& [devices, line] : queue_.waiting) heads_.push_back({line.begin(), line.end()});
  }

  void run() {
    while (const auto head = first_head()) {
      const std::int64_t before = devices_before(end_of(*heads_[*head].at));
      if (before > left_) break;
      take(*head, left_ - before);
    }
    if (devices_before(kLast) > left_) squeeze();
  }

 private:
  // The next job among those that stand still: among the jobs in a pause, or among those that wait
  // for equal numbers of devices.
  struct Head {
    std::set<Place>::const_iterator at, end;
  };
  static constexpr Place kLast{.rank = std::numeric_limits<std::int64_t>::max()};

  std::optional<std::size_t> first_head() const {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < heads_.size(); ++i)
      if (!first || *heads_[i].at < *heads_[*first].at) first = i;
    return first;
  }

  // Running jobs up to this place come before the job that stands still. Its key is a remaining
  // time, which becomes an end if it starts now.
  Place end_of(const Place& stands) const {
    Place end;
    end.rank = stands.rank;
    end.key = ascending(board_.now_s() + std::bit_cast<double>(stands.key));
    end.number = std::numeric_limits<std::uint64_t>::max();
    return end;
  }

  // Devices that running jobs up to `end` hold.
  std::int64_t devices_before(const Place& end) const {
    std::int64_t sum = 0;
    for (const PlaceList::Block& block : queue_.running.blocks()) {
      if (end < block.places.front()) break;
      if (!(end < block.places.back())) {
        sum += block.in_turn[0];
        continue;
      }
      for (const Place& place : block.places)
        if (!(end < place)) sum += entries_[place.slot].devices;
    }
    return sum;
  }

  // Decides whether the job at the head gets its gang, with `left` devices available.
  void take(std::size_t index, std::int64_t left) {
    Head& head = heads_[index];
    const Place& place = *head.at;
    const std::uint32_t devices = entries_[place.slot].devices;
    const bool fits = devices <= left;
    if (fits) left_ -= devices;
    if (fits && !place.holds) grant(place.slot, devices);
    if (!fits && place.holds) drop(place.slot, devices);
    const bool is_over = !fits && !place.holds;  // the others in this line need as many devices
    if (is_over || ++head.at == head.end)
      heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  // Called if the running jobs do not all fit. From the first running job that does not fit, each
  // job is served in turn.
  void squeeze() {
    std::int64_t left = left_;
    bool begun = false;
    for (const PlaceList::Block& block : queue_.running.blocks()) {
      if (!begun && block.in_turn[0] <= left) {
        left -= block.in_turn[0];
        continue;
      }
      for (const Place& place : block.places) {
        const std::uint32_t devices = entries_[place.slot].devices;
        begun = begun || devices > left;
        if (begun) left = serve_heads(place, left);
        if (devices <= left) {
          left -= devices;
        } else {
          drop(place.slot, devices);
        }
      }
    }
    serve_heads(kLast, left);
  }

  // Serves the jobs that stand still and come before this running job.
  std::int64_t serve_heads(const Place& running, std::int64_t left) {
    while (const auto head = first_head()) {
      if (!(end_of(*heads_[*head].at) < running)) break;
      const std::int64_t before = left_;
      take(*head, left);
      left -= before - left_;
    }
    return left;
  }

  // Grants devices that are free. Other devices are reserved, and are granted when they have come
  // back.
  void grant(std::size_t slot, std::uint32_t devices) {
    const bool is_free = devices <= free_;
    free_ -= std::min(free_, devices);
    if (is_free) result_.grants.push_back({slot, set_of(devices)});
  }

  void drop(std::size_t slot, std::uint32_t devices) {
    result_.shrinks.push_back({slot, set_of(devices)});
  }

  DeviceSet set_of(std::uint32_t devices) const {
    DeviceSet set;
    set.add(board_.type_names()[type_], devices);
    return set;
  }

  const std::vector<GangQueue::Entry>& entries_;
  const GangQueue::Queue& queue_;
  const Board& board_;
  const std::size_t type_;
  std::vector<Head> heads_;
  std::int64_t left_;   // supply without the devices of jobs that stand still
  std::uint32_t free_;  // neither granted nor reserved yet
  Decisions& result_;
};

Decisions GangQueue::decide(const Board& board) {
  Decisions result;
  for (std::size_t type = 0; type < queues_.size(); ++type)
    QueueWalk(*this, type, board, result).run();
  return result;
}

}  // namespace es::scheduler
