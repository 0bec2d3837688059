#include "proto/base/kill_point.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "proto/base/check.h"

namespace es::kill_points {
namespace {

// Long enough for another thread to send a message, and short compared with a step.
constexpr std::chrono::milliseconds kLeaveTime{3};

struct Armed {
  std::string name;  // empty if no point is armed
  std::uint64_t after = 1;
  std::string token;  // empty if no other process has the same point armed
};

Armed read_environment() {
  const char* const point = std::getenv("ES_KILL_POINT");
  const char* const token = std::getenv("ES_KILL_TOKEN");
  Armed armed;
  if (point == nullptr) return armed;
  armed.name = point;
  if (token != nullptr) armed.token = token;
  if (const auto colon = armed.name.rfind(':'); colon != std::string::npos) {
    char* end = nullptr;
    armed.after = std::strtoull(armed.name.c_str() + colon + 1, &end, 10);
    ES_CHECK_MSG(*end == '\0' && armed.after > 0,
                 "ES_KILL_POINT = \"" + armed.name + "\": allowed is NAME or NAME:N, N from 1");
    armed.name.resize(colon);
  }
  return armed;
}

const Armed& armed_point() {
  static const Armed armed = read_environment();
  return armed;
}

// Whether this is the armed point, its N-th visit, and the process that obtained the token.
bool is_due(std::string_view name) {
  // Only visits of the armed point are counted, because && and || stop at the first test that
  // decides.
  static std::atomic<std::uint64_t> times{0};
  const Armed& armed = armed_point();
  // The comparison is "less" and not "unequal": after the N-th visit every further one is due too.
  // A test that creates the token anew can thus end a process that has made its N-th visit.
  if (name != armed.name || ++times < armed.after) return false;
  // unlink() is atomic: of several processes exactly one removes the file.
  return armed.token.empty() || ::unlink(armed.token.c_str()) == 0;
}

[[noreturn]] void die() {
  // SIGKILL and not abort() or exit(): no destructor runs and no buffer is flushed. kill() may
  // return before the signal is delivered, and the caller must not continue even then.
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

}  // namespace

bool is_armed() {
  // Several threads may arrive here first. The exchange changes only kUnread, so a thread that
  // comes late cannot overwrite kDying.
  Mode unread = Mode::kUnread;
  mode.compare_exchange_strong(unread, armed_point().name.empty() ? Mode::kOff : Mode::kArmed);
  return mode.load() == Mode::kArmed;
}

void reach(std::string_view name) {
  if (is_due(name)) die();
}

void reach_then_leave(std::string_view name) {
  if (!is_due(name)) return;
  // Before the thread starts, so that no other message is sent once this function has returned.
  mode.store(Mode::kDying);
  std::thread([] {
    std::this_thread::sleep_for(kLeaveTime);
    die();
  }).detach();
}

}  // namespace es::kill_points
