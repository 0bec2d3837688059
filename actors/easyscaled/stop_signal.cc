#include "actors/easyscaled/stop_signal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

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
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  const int finished = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
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

StopSignal::Cause StopSignal::wait() {
  pollfd fds[3] = {{signals_, POLLIN, 0}, {finished_, POLLIN, 0}, {parent_, POLLIN, 0}};
  while (::poll(fds, 3, -1) < 0 && errno == EINTR) {
  }
  if (fds[1].revents != 0) return Cause::kFinished;
  if (fds[2].revents != 0) {
    ::close(std::exchange(parent_, -1));  // poll ignores -1: it is told once
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
