#include "store/dataset/python/loader_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

namespace es::store {
namespace {

constexpr int kCannotExecute = 127;

// What makes the code of a dataset give the same bits in every process: a fixed order of sets of
// texts, and one thread for the libraries that divide sums among threads. One thread is also what
// each of several loader processes should use.
constexpr std::string_view kFixed[] = {"PYTHONHASHSEED=0", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1",
                                       "OPENBLAS_NUM_THREADS=1", "PYTHONUNBUFFERED=1"};
constexpr std::string_view kPath = "PYTHONPATH=";

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('=') + 1);
}

std::vector<std::string> environment_for(const std::string& python_path) {
  std::vector<std::string> all(std::begin(kFixed), std::end(kFixed));
  std::string path = std::string(kPath) + python_path;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view variable(*at);
    if (variable.starts_with(kPath)) {
      path += (python_path.empty() ? "" : ":") + std::string(variable.substr(kPath.size()));
      continue;
    }
    const bool fixed = std::ranges::any_of(
        kFixed, [&](std::string_view f) { return variable.starts_with(name_of(f)); });
    if (!fixed) all.emplace_back(variable);
  }
  if (path.size() > kPath.size()) all.push_back(std::move(path));
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// Runs between fork and exec, so it makes only async-signal-safe calls.
[[noreturn]] void become_loader(char* const* argv, char* const* environment,
                                std::span<const int> kept, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotExecute);  // the parent died before the line above
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // What a dataset prints belongs to the log and not to an answer of `esctl` on standard output.
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  for (const int descriptor : kept) ::fcntl(descriptor, F_SETFD, 0);
  ::execve(argv[0], argv, environment);
  ::_exit(kCannotExecute);
}

// Waits until the process has ended, at most for a short while. One that closes its socket is
// about to end.
void wait_for_end(pid_t pid) {
  constexpr int kLimitMs = 5000;
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.get() < 0) return;
  pollfd waiting{.fd = process.get(), .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, kLimitMs) < 0 && errno == EINTR) {
  }
}

std::string end_text(int status) {
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  if (code == kCannotExecute) return "could not be started: its interpreter cannot be executed";
  return "has ended with exit code " + std::to_string(code);
}

}  // namespace

Result<std::unique_ptr<LoaderProcess>> LoaderProcess::start(const LoaderCommand& command,
                                                            std::unique_ptr<SharedSamples> memory) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return failure(command.python + ": " + std::strerror(errno));
  FileDescriptor ours(sockets[0]);
  const FileDescriptor theirs(sockets[1]);
  // Everything that allocates memory happens before the fork: another thread may hold the lock of
  // the allocator at that moment.
  const int kept[] = {theirs.get(), memory->descriptor(), command.dataset_descriptor};
  std::vector<std::string> words = {command.python, "-P", "-m", "easyscale.data.dataset_loader"};
  for (const int descriptor : kept) words.push_back(std::to_string(descriptor));
  words.push_back(command.dataset);
  std::vector<std::string> variables = environment_for(command.python_path);
  const std::vector<char*> argv = pointers(words), environment = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become_loader(argv.data(), environment.data(), kept, parent);
  if (pid < 0) return failure(command.python + ": cannot be started: " + std::strerror(errno));
  // The child does the same; the group exists when kill() is called, whichever process is first.
  ::setpgid(pid, pid);
  return std::unique_ptr<LoaderProcess>(new LoaderProcess(pid, ours.release(), std::move(memory)));
}

void LoaderProcess::kill() const {
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
}

int LoaderProcess::reap() {
  kill();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

std::string LoaderProcess::end() {
  wait_for_end(pid_);
  siginfo_t info{};
  // It stays unreaped until the rest of its group was killed, so its number is not used again.
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  const bool had_ended = info.si_pid != 0;
  const int status = reap();
  return had_ended ? end_text(status) : "has closed its socket";
}

LoaderProcess::~LoaderProcess() {
  if (pid_ != 0) reap();
}

}  // namespace es::store
