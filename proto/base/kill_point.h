#pragma once
// Kill points are named places in the code at which a test can end this process as `kill -9` would.
//
// ES_KILL_POINT=NAME[:N] arms one point: the process sends itself SIGKILL when it reaches the point
// for the N-th time (N from 1, default 1). With ES_KILL_TOKEN=FILE the process first removes that
// file, and continues if the file does not exist. So exactly one of several processes with the same
// environment ends, and a test arms the point again by creating the file anew. Both variables are
// read once, at the first point. Without them a point costs one relaxed load and a branch.
//
// Thread-safe. tests/chaos/points.py lists the points.
#include <atomic>
#include <string_view>

namespace es {
namespace kill_points {

enum class Mode : int { kUnread, kOff, kArmed, kDying };

inline std::atomic<Mode> mode{Mode::kUnread};

bool is_armed();  // reads the environment at the first call
void reach(std::string_view name);
void reach_then_leave(std::string_view name);

}  // namespace kill_points

inline bool kill_points_armed() {
  const auto mode = kill_points::mode.load(std::memory_order_relaxed);
  return mode != kill_points::Mode::kOff && kill_points::is_armed();
}

// Does not return if this point is armed and due.
inline void kill_point(std::string_view name) {
  if (kill_points_armed()) kill_points::reach(name);
}

// A point after an action that other threads still complete, such as sending a message. The process
// lives for a few more milliseconds, in which kill_point_passed() is true.
inline void kill_point_after(std::string_view name) {
  if (kill_points_armed()) kill_points::reach_then_leave(name);
}

// True if the process is about to end after a point. It must send nothing more.
inline bool kill_point_passed() {
  return kill_points::mode.load(std::memory_order_relaxed) == kill_points::Mode::kDying;
}

}  // namespace es
