#include "actors/esctl/client/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "proto/base/check.h"

namespace es::actors::esctl {

StopSignals::StopSignals() {
  sigset_t taken;
  sigemptyset(&taken);
  // While SIGPIPE is blocked, a write to a closed pipe also fails with EPIPE, which the output
  // reports.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGWINCH})
    sigaddset(&taken, signal);
  ES_CHECK(::pthread_sigmask(SIG_BLOCK, &taken, &mask_before_) == 0);
  fd_ = ::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  ES_CHECK_MSG(fd_ >= 0, "no file descriptor is left");
}

StopSignals::~StopSignals() {
  // Pending signals are taken before the old mask returns. Otherwise they would be delivered then
  // and could end the program.
  take();
  ::close(fd_);
  restore();
}

void StopSignals::take() {
  signalfd_siginfo info{};
  while (::read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    // These two only had to end a poll().
    if (signal == SIGCHLD || signal == SIGWINCH) continue;
    if (first_ == 0) first_ = signal;
    // Two signals of one kind that arrive before this read count once, since the kernel does not
    // queue them.
    ++count_;
  }
}

void StopSignals::restore() const {
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

}  // namespace es::actors::esctl
