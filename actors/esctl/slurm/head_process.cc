#include "actors/esctl/slurm/head_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "actors/esctl/client/child_daemon.h"
#include "proto/base/check.h"

namespace es::actors::esctl {
namespace {

constexpr std::string_view kReady = "ready ";

}  // namespace

Result<std::unique_ptr<HeadProcess>> HeadProcess::start(const std::vector<std::string>& words,
                                                        StopSignals& signals) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return failure(std::string("a pipe: ") + std::strerror(errno));
  std::vector<std::string> texts = words;
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid == 0) become_daemon(argv.data(), ends[1], STDERR_FILENO, parent, signals);
  ::close(ends[1]);
  std::unique_ptr<HeadProcess> head(new HeadProcess(pid, ends[0], signals));
  if (pid < 0) {
    head->status_ = 0;
    return failure(std::string("easyscaled cannot be started: ") + std::strerror(errno));
  }
  ES_RETURN_IF_ERROR(head->wait_ready());
  return head;
}

HeadProcess::~HeadProcess() {
  if (status_) return;
  ::kill(pid_, SIGKILL);
  reap(true);
}

// A head that recovers a large journal may take long, so there is no time limit.
Status HeadProcess::wait_ready() {
  std::string line;
  for (;;) {
    std::array<pollfd, 2> fds{{{out_.get(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), -1);
    signals_.take();
    if (signals_.count() > 0) {
      stop();
      return failure("stopped before the head was ready");
    }
    if (fds[0].revents == 0) continue;
    char c = 0;
    if (::read(out_.get(), &c, 1) != 1) {
      reap(true);
      return Error{kind_of_exit(*status_), "easyscaled --head ended before it was ready (" +
                                               describe_exit(*status_) + "); its log is above"};
    }
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.starts_with(kReady)) {
      endpoint_ = line.substr(kReady.size());
      return {};
    }
    line.clear();
  }
}

bool HeadProcess::reap(bool wait) {
  if (status_) return true;
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(pid_, &status, wait ? 0 : WNOHANG);
  } while (ended < 0 && errno == EINTR);
  if (ended != pid_) return false;
  status_ = status;
  return true;
}

std::optional<std::string> HeadProcess::end() {
  if (!reap(false)) return {};
  return describe_exit(*status_);
}

void HeadProcess::stop() {
  if (reap(false)) return;
  ::kill(pid_, SIGTERM);
  const int signals_before = signals_.count();
  while (!reap(false)) {
    pollfd fd{signals_.fd(), POLLIN, 0};  // SIGCHLD makes it readable
    ::poll(&fd, 1, -1);
    signals_.take();
    if (signals_.count() > signals_before) ::kill(pid_, SIGKILL);
  }
}

}  // namespace es::actors::esctl
