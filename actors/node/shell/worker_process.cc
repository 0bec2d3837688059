#include "actors/node/shell/worker_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "actors/base/log/line.h"
#include "actors/base/log/tail.h"

namespace es::actors {
namespace {

// How much of the end of a log is searched for last words. Most of its lines may be none.
constexpr std::size_t kTailBytesMax = 16 << 10;

std::string last_words(const std::filesystem::path& log_file) {
  std::string text = log::complaints_of(log::tail_of(log_file, kTailBytesMax));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  if (text.size() > kLastWordsBytesMax) text.erase(0, text.size() - kLastWordsBytesMax);
  return text;
}

// If memory runs out, the kernel shall choose a worker, which its job survives, and not the daemon,
// with which all workers of the node end. Where this cannot be written, the kernel chooses as for
// any process.
void be_ended_before_the_daemon() {
  constexpr char kRaised[] = "500";  // of at most 1000: as if it used half of the memory besides
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, kRaised, sizeof kRaised - 1);
  ::close(file);
}

// Runs between fork and exec, so it makes only async-signal-safe calls.
[[noreturn]] void become(char* const* argv, int log, pid_t parent) {
  // The kernel kills the worker when the daemon ends in any way, so no worker can survive as a
  // stray.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNotStarted);  // the parent died before the line above
  be_ended_before_the_daemon();
  sigset_t none;
  // The daemon blocks signals in its threads, and a child inherits the mask.
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv(argv[0], argv);
  ::_exit(kNotStarted);
}

}  // namespace

Result<pid_t> start_process(const std::vector<std::string>& argv,
                            const std::filesystem::path& log_file) {
  std::vector<char*> arguments;
  for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  // Everything that allocates memory happens before the fork: another thread may hold the lock of
  // the allocator at that moment, and the child has no such thread to release it.
  const int log = ::open(log_file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (log < 0) return failure(log_file.string() + ": " + std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(arguments.data(), log, parent);
  const int error = errno;
  ::close(log);
  if (pid < 0) return failure("cannot start " + argv[0] + ": " + std::strerror(error));
  return pid;
}

ProcessExit wait_for_process(pid_t pid, const std::filesystem::path& log_file) {
  siginfo_t info{};
  // WNOWAIT leaves the process unreaped, so its number is not used again before reap_process().
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  ProcessExit exit;
  if (info.si_code == CLD_EXITED)
    exit.exit_code = info.si_status;
  else
    exit.signal = info.si_status;
  exit.last_words = last_words(log_file);
  return exit;
}

void reap_process(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace es::actors
