#pragma once
// Which of several controllers acts: the holder of a Lease. Pure: the caller reads and writes the
// object, and gives the time of a steady clock.
//
// The clocks of machines differ, so no controller compares times of others with its own. A Lease
// has expired when it did not change for its duration, as seen by the controller that wants it. The
// holder stops acting earlier, kMargin before that could be so.
#include <chrono>
#include <optional>
#include <string>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

class LeaseHolder {
 public:
  static constexpr std::chrono::seconds kDuration{15}, kRenewal{5}, kMargin{5};
  using Time = std::chrono::steady_clock::time_point;

  // `me`: unique among the controllers.
  explicit LeaseHolder(std::string me) : me_(std::move(me)) {}

  // `found`: the object, or no value if there is none. Returns what is to be written now, with the
  // version that it replaces; no value: nothing. `clock_text`: the time of day in RFC 3339 with
  // microseconds.
  std::optional<Json> decide(const std::optional<Json>& found, Time now,
                             const std::string& clock_text);
  // The object that decide() returned at `decided` was written.
  void written(Time decided) { held_since_ = decided; }
  // Another one has written first.
  void lost() { held_since_.reset(); }

  // It acts before this time; the earliest time: it does not.
  Time holds_until() const { return held_since_ ? *held_since_ + kDuration - kMargin : Time(); }
  bool holds(Time now) const { return now < holds_until(); }
  // Whether the object need not be read yet.
  bool is_fresh(Time now) const { return held_since_ && now < *held_since_ + kRenewal; }

 private:
  const std::string me_;
  std::optional<Time> held_since_;  // the last time that this one has written it
  std::string version_;             // that was seen last,
  Time seen_{};                     // and when it was seen first
};

}  // namespace es::actors::kubernetes
