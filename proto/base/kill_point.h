#pragma once
// Kill points: named places where a test can have this process die as if by `kill -9`.
//
// ES_KILL_POINT=NAME[:N] arms one point: the process sends itself SIGKILL when it comes there for
// the N-th time (N from 1, default 1). With ES_KILL_TOKEN=FILE it first removes that file, and
// lives on when the file is not there: so of several processes with the same environment exactly
// one dies, and a test arms the point again by making the file anew. Both are read once, at the
// first point. Without them a point costs one relaxed load and a branch.
//
// Thread-safe. tests/chaos/README.md lists the points.
#include <atomic>
#include <string_view>

namespace es {
namespace kill_points {

enum class Mode : int { kUnread, kOff, kArmed, kDying };

inline std::atomic<Mode> mode{Mode::kUnread};

bool is_armed();  // reads the environment the first time
void reach(std::string_view name);
void reach_then_leave(std::string_view name);

}  // namespace kill_points

inline bool kill_points_armed() {
  const auto mode = kill_points::mode.load(std::memory_order_relaxed);
  return mode != kill_points::Mode::kOff && kill_points::is_armed();
}

// Does not return when this is the point.
inline void kill_point(std::string_view name) {
  if (kill_points_armed()) kill_points::reach(name);
}

// The point after something that other threads still carry out (a message on its way): they get a
// few milliseconds, in which kill_point_passed() holds.
inline void kill_point_after(std::string_view name) {
  if (kill_points_armed()) kill_points::reach_then_leave(name);
}

// The process is about to die after a point: nothing more may leave it.
inline bool kill_point_passed() {
  return kill_points::mode.load(std::memory_order_relaxed) == kill_points::Mode::kDying;
}

}  // namespace es
