#pragma once
// GrowingPauses decides how long something that has failed is not tried again. Each further pause
// of the same key is twice as long, up to a longest one, until the key has worked or has not failed
// for several times its last pause. Pure; not thread-safe.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "actors/base/protocol/core/instant.h"

namespace es::actors {

inline constexpr Instant kPauseShortest = std::chrono::seconds(2);
// A try over a link costs a job more than a process that does not start.
inline constexpr Instant kLinkPauseShortest = std::chrono::seconds(20);
inline constexpr Instant kPauseLongest = std::chrono::minutes(10);
// A key that has not failed for this multiple of its last pause begins with the shortest one again.
inline constexpr int kPausesForgotten = 8;

template <class Key>
class GrowingPauses {
 public:
  explicit GrowingPauses(Instant shortest = kPauseShortest) : shortest_(shortest) {}

  // The key has failed. Returns the end of its pause. One that fails again during its pause,
  // because several tries ran at the same time, has the same pause.
  Instant failed(const Key& key, Instant now) {
    const auto [at, is_first] = pauses_.try_emplace(key, Pause{now, Instant{}});
    Pause& pause = at->second;
    if (!is_first && now < pause.end) return pause.end;
    // The time is counted from the end of the last pause, when the key could be used again.
    const bool fresh = is_first || now - pause.end > kPausesForgotten * pause.length;
    pause.length = fresh ? shortest_ : std::min(2 * pause.length, kPauseLongest);
    pause.end = now + pause.length;
    return pause.end;
  }
  void forget(const Key& key) { pauses_.erase(key); }
  // For each key for which this returns true.
  template <class Test>
  void forget_if(const Test& test) {
    std::erase_if(pauses_, [&](const auto& entry) { return test(entry.first); });
  }
  bool empty() const { return pauses_.empty(); }
  bool waits(const Key& key, Instant now) const {
    const auto found = pauses_.find(key);
    return found != pauses_.end() && now < found->second.end;
  }
  // Whether the key has failed and neither worked since then nor been forgotten for its age.
  bool is_remembered(const Key& key, Instant now) const {
    const auto found = pauses_.find(key);
    return found != pauses_.end() &&
           now - found->second.end <= kPausesForgotten * found->second.length;
  }
  // The end of the first pause that is running; nullopt: none runs.
  std::optional<Instant> first_end(Instant now) const {
    std::optional<Instant> first;
    for (const auto& [key, pause] : pauses_)
      if (now < pause.end) first = std::min(first.value_or(pause.end), pause.end);
    return first;
  }
  // The keys whose pause is running, with its end, ascending.
  std::map<Key, Instant> running(Instant now) const {
    std::map<Key, Instant> found;
    for (const auto& [key, pause] : pauses_)
      if (now < pause.end) found.emplace(key, pause.end);
    return found;
  }

 private:
  struct Pause {
    Instant end, length;
  };
  Instant shortest_;
  std::map<Key, Pause> pauses_;
};

}  // namespace es::actors
