#pragma once
// AwaitedWorkers contains the workers of the journal that have sent nothing to this head yet. After
// a restart of the head they train on and find it by themselves; those that have not connected when
// kReturnTimeout is over count as lost. Pure; one owner.
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "actors/head/intra_job/core/fleet.h"

namespace es::actors::intra_job {

// The time that a restarted head gives the workers of its journal to send a message.
inline constexpr Instant kReturnTimeout = std::chrono::seconds(30);

class AwaitedWorkers {
 public:
  // All workers of `fleet`, from now on.
  AwaitedWorkers(const Fleet& fleet, Instant now) : until_(now + kReturnTimeout) {
    for (const auto& [incarnation, worker] : fleet.workers()) workers_.insert(incarnation);
  }

  void heard(Incarnation worker) { workers_.erase(worker); }
  bool contains(Incarnation worker) const { return workers_.contains(worker); }
  // Returns the end of the time limit; nullopt: no worker is awaited.
  std::optional<Instant> next_tick() const {
    return workers_.empty() ? std::nullopt : std::optional(until_);
  }
  // Returns, once, the workers that have missed the time limit.
  std::set<Incarnation> take_missing(Instant now) {
    return now > until_ ? std::exchange(workers_, {}) : std::set<Incarnation>();
  }

 private:
  std::set<Incarnation> workers_;
  Instant until_;
};

}  // namespace es::actors::intra_job
