#include "actors/easyscaled/stop_signal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace es::actors {

Result<StopSignal> StopSignal::create(pid_t parent) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  // The signals are blocked before any other thread exists. All threads inherit the mask, so only
  // the descriptor receives them.
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  const int finished = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  // A descriptor of the process, unlike its number, never refers to another process. It becomes
  // readable when the process ends.
  const int watched = parent == 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  if (signals < 0 || finished < 0 || (parent != 0 && watched < 0))
    return failure(std::string("cannot watch for the end: ") + std::strerror(errno));
  return StopSignal(signals, watched, finished);
}

StopSignal::StopSignal(StopSignal&& other) noexcept
    : signals_(std::exchange(other.signals_, -1)),
      parent_(std::exchange(other.parent_, -1)),
      finished_(std::exchange(other.finished_, -1)) {}

StopSignal::~StopSignal() {
  for (const int fd : {signals_, parent_, finished_})
    if (fd >= 0) ::close(fd);
}

StopSignal::Cause StopSignal::wait(std::optional<std::chrono::steady_clock::time_point> deadline) {
  const auto left_ms = [&] {
    if (!deadline) return -1;
    const auto left = *deadline - std::chrono::steady_clock::now();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    // poll() takes an int, so a long wait is cut into minutes. The loop below continues it.
    return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 60'000));
  };
  pollfd fds[3] = {{signals_, POLLIN, 0}, {finished_, POLLIN, 0}, {parent_, POLLIN, 0}};
  for (int ready = 0; ready <= 0;) {
    const int wait_ms = left_ms();
    ready = ::poll(fds, 3, wait_ms);
    // A cause that is already there counts more than a deadline that has passed.
    if (ready == 0 && wait_ms == 0) return Cause::kTimeout;
  }
  // The end of all work counts more than a signal that arrives at the same moment.
  if (fds[1].revents != 0) return Cause::kFinished;
  if (fds[2].revents != 0) {
    ::close(std::exchange(parent_, -1));  // poll ignores -1, so this is reported once
    return Cause::kParentEnded;
  }
  signalfd_siginfo info;
  (void)!::read(signals_, &info, sizeof info);
  return Cause::kSignal;
}

void StopSignal::finish() {
  const std::uint64_t one = 1;
  (void)!::write(finished_, &one, sizeof one);
}

}  // namespace es::actors
