#include "scheduler/policy/gang/gang_queue.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <span>

#include "scheduler/policy/common/choice.h"

namespace es::scheduler {
namespace {

bool holds_gang(const ClusterTable& table, const JobRow& row, const Counts& gang) {
  const auto held = table.held(row.slot);
  return row.held_total > 0 && std::equal(held.begin(), held.end(), gang.begin());
}

}  // namespace

GangKey gang_key(const ClusterTable& table, const JobRow& row, const Counts& gang) {
  GangKey key{.priority_rank = -std::int64_t{row.priority}, .number = row.number};
  const double speed = speed_on(table, row, gang);
  if (speed > 0 && holds_gang(table, row, gang) && table.now_s() >= row.progress_from_s) {
    // The end of a running job does not change as time passes, so its place among running jobs
    // stays.
    key.end_s = row.progress_from_s + row.remaining_steps / speed;
    return key;
  }
  key.is_idle = true;
  key.remaining_s = speed > 0 ? row.remaining_steps / speed : ClusterTable::kUnknownSteps;
  key.end_s = table.now_s() + key.remaining_s;
  return key;
}

void GangQueue::update(const ClusterTable& table) {
  if (queues_.size() != table.types() || entries_.size() > table.rows().size()) {  // another view
    *this = {};
    queues_.resize(table.types());
    // Each queue has jobs of one type, so its summaries need one count.
    for (Queue& queue : queues_) queue.running.clear(1);
  }
  entries_.resize(table.rows().size());
  for (const std::size_t slot : table.written()) write(table, slot);
  // Their pause is over, so they change from idle to running without an event. write() erases the
  // entry and makes none, because a gang has a speed (gangs_of). So the loop ends.
  while (!pauses_.empty() && pauses_.begin()->first <= table.now_s())
    write(table, pauses_.begin()->second);
}

void GangQueue::write(const ClusterTable& table, std::size_t slot) {
  erase(slot);
  const JobRow& row = table.rows()[slot];
  if (!row.present) return;
  Entry& entry = entries_[slot];
  const std::vector<Counts> gangs = gangs_of(table, row);
  const Counts gang = gangs.empty() ? Counts(table.types(), 0) : gangs.front();
  const auto chosen = std::find_if(gang.begin(), gang.end(), [](std::uint32_t n) { return n > 0; });
  const bool runs = holds_gang(table, row, gang);
  // The walk treats each job as able to keep its gang or lose all of it. Other jobs need the
  // general decision.
  const bool is_bound = runs && row.may_suspend;
  if (row.pinned || gangs.size() > 1 || (row.held_total > 0 && !is_bound)) {
    entry.state = State::kOther;
    ++others_;
    return;
  }
  if (chosen == gang.end()) return;  // the job cannot run
  const GangKey key = gang_key(table, row, gang);
  entry.type = static_cast<std::size_t>(chosen - gang.begin());
  entry.devices = *chosen;
  entry.queue_entry.rank = key.priority_rank;
  // Idle and running jobs are in different sets, so the two kinds of keys are never compared
  // directly. end_of() converts one into the other.
  entry.queue_entry.key = sortable_bits(key.is_idle ? key.remaining_s : key.end_s);
  entry.queue_entry.number = row.number;
  entry.queue_entry.slot = static_cast<std::uint32_t>(slot);
  entry.queue_entry.holds = row.held_total > 0;
  entry.from_s = row.progress_from_s;
  entry.state = !runs ? State::kWaits : key.is_idle ? State::kPaused : State::kRuns;
  enter(slot);
}

void GangQueue::enter(std::size_t slot) {
  const Entry& entry = entries_[slot];
  Queue& queue = queues_[entry.type];
  if (entry.state == State::kRuns) {
    queue.running.insert(entry.queue_entry, std::span(&entry.devices, 1));
  } else if (entry.state == State::kPaused) {
    queue.paused.insert(entry.queue_entry);
    pauses_.emplace(entry.from_s, slot);
  } else {
    queue.waiting[entry.devices].insert(entry.queue_entry);
  }
}

void GangQueue::erase(std::size_t slot) {
  Entry& entry = entries_[slot];
  if (entry.state == State::kOther) --others_;
  if (entry.state == State::kRuns) queues_[entry.type].running.erase(entry.queue_entry);
  if (entry.state == State::kPaused) {
    queues_[entry.type].paused.erase(entry.queue_entry);
    pauses_.erase({entry.from_s, slot});
  }
  if (entry.state == State::kWaits) {
    auto& waiting = queues_[entry.type].waiting;
    const auto list = waiting.find(entry.devices);
    list->second.erase(entry.queue_entry);
    if (list->second.empty()) waiting.erase(list);
  }
  entry = {};
}

// The decision for one type.
class QueueWalk {
 public:
  QueueWalk(const GangQueue& all, std::size_t type, const ClusterTable& table, Decisions& result)
      : entries_(all.entries_),
        queue_(all.queues_[type]),
        table_(table),
        type_(type),
        left_(table.supply()[type]),
        free_(table.free()[type]),
        result_(result) {
    if (!queue_.paused.empty()) heads_.push_back({queue_.paused.begin(), queue_.paused.end()});
    for (const auto& [devices, list] : queue_.waiting) heads_.push_back({list.begin(), list.end()});
  }

  void run() {
    while (const auto head = first_head()) {
      const std::int64_t before = devices_before(end_of(*heads_[*head].at));
      // Already the running jobs before it do not fit, so preempt_running() has to decide from
      // there on.
      if (before > left_) break;
      serve_head(*head, left_ - before);
    }
    if (devices_before(kLast) > left_) preempt_running();
  }

 private:
  // The next job of a list of idle jobs: of those in a pause, or of those that wait for equal
  // numbers of devices.
  struct Head {
    std::set<QueueEntry>::const_iterator at, end;
  };
  static constexpr QueueEntry kLast{.rank = std::numeric_limits<std::int64_t>::max()};

  std::optional<std::size_t> first_head() const {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < heads_.size(); ++i)
      if (!first || *heads_[i].at < *heads_[*first].at) first = i;
    return first;
  }

  // Running jobs up to this entry come before the idle job. Its key is a remaining time, which
  // becomes an end if it starts now.
  QueueEntry end_of(const QueueEntry& idle) const {
    QueueEntry end;
    end.rank = idle.rank;
    end.key = sortable_bits(table_.now_s() + std::bit_cast<double>(idle.key));
    end.number = std::numeric_limits<std::uint64_t>::max();
    return end;
  }

  // Devices that running jobs up to `end` hold.
  std::int64_t devices_before(const QueueEntry& end) const {
    std::int64_t sum = 0;
    for (const ServiceQueue::Block& block : queue_.running.blocks()) {
      if (end < block.entries.front()) break;
      if (!(end < block.entries.back())) {
        sum += block.reassignable[0];
        continue;
      }
      for (const QueueEntry& entry : block.entries)
        if (!(end < entry)) sum += entries_[entry.slot].devices;
    }
    return sum;
  }

  // Decides whether the job at the head gets its gang, with `left` devices available.
  void serve_head(std::size_t index, std::int64_t left) {
    Head& head = heads_[index];
    const QueueEntry& entry = *head.at;
    const std::uint32_t devices = entries_[entry.slot].devices;
    const bool fits = devices <= left;
    if (fits) left_ -= devices;
    if (fits && !entry.holds) grant(entry.slot, devices);
    if (!fits && entry.holds) drop(entry.slot, devices);
    const bool is_over = !fits && !entry.holds;  // the others in this list need as many devices
    if (is_over || ++head.at == head.end)
      heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  // Called if the running jobs do not all fit. From the first running job that does not fit, each
  // job is served in turn.
  void preempt_running() {
    std::int64_t left = left_;
    bool begun = false;
    for (const ServiceQueue::Block& block : queue_.running.blocks()) {
      if (!begun && block.reassignable[0] <= left) {
        left -= block.reassignable[0];
        continue;
      }
      for (const QueueEntry& entry : block.entries) {
        const std::uint32_t devices = entries_[entry.slot].devices;
        begun = begun || devices > left;
        if (begun) left = serve_heads(entry, left);
        if (devices <= left) {
          left -= devices;
        } else {
          drop(entry.slot, devices);
        }
      }
    }
    serve_heads(kLast, left);
  }

  // Serves the idle jobs that come before this running job.
  std::int64_t serve_heads(const QueueEntry& running, std::int64_t left) {
    while (const auto head = first_head()) {
      if (!(end_of(*heads_[*head].at) < running)) break;
      const std::int64_t before = left_;
      serve_head(*head, left);
      left -= before - left_;
    }
    return left;
  }

  // Grants devices that are free. Other devices are reserved, and are granted when their jobs have
  // given them back.
  void grant(std::size_t slot, std::uint32_t devices) {
    const bool is_free = devices <= free_;
    const std::uint32_t kept = std::min(free_, devices);
    free_ -= kept;
    if (is_free) return result_.grants.push_back({slot, set_of(devices)});
    result_.waits.push_back({.slot = slot, .keeps = set_of(kept)});
  }

  void drop(std::size_t slot, std::uint32_t devices) {
    result_.shrinks.push_back({slot, set_of(devices)});
  }

  DeviceSet set_of(std::uint32_t devices) const {
    DeviceSet set;
    set.add(table_.type_names()[type_], devices);
    return set;
  }

  const std::vector<GangQueue::Entry>& entries_;
  const GangQueue::Queue& queue_;
  const ClusterTable& table_;
  const std::size_t type_;
  std::vector<Head> heads_;
  std::int64_t left_;   // supply without the devices of idle jobs
  std::uint32_t free_;  // neither granted nor reserved yet
  Decisions& result_;
};

Decisions GangQueue::decide(const ClusterTable& table) {
  Decisions result;
  for (std::size_t type = 0; type < queues_.size(); ++type)
    QueueWalk(*this, type, table, result).run();
  return result;
}

}  // namespace es::scheduler
