#include "actors/esctl/client/child_daemon.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace es::actors::esctl {

[[noreturn]] void become_daemon(char* const* argv, int output_fd, int error_fd, pid_t parent,
                                const StopSignals& signals) {
  // A group of its own has two effects: Ctrl-C reaches only esctl, which then decides, and a signal
  // to the group reaches all processes of the daemon.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // the parent ended before prctl took effect
  signals.restore();
  const int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null_fd, STDIN_FILENO);
  ::dup2(output_fd, STDOUT_FILENO);
  ::dup2(error_fd, STDERR_FILENO);
  ::execv(argv[0], argv);
  constexpr char kMessage[] = "easyscaled cannot be executed\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  ::_exit(127);
}

std::string describe_exit(int status) {
  if (WIFSIGNALED(status)) return std::string("signal ") + ::strsignal(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

ErrorKind kind_of_exit(int status) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  for (const ErrorKind kind : {ErrorKind::kUsage, ErrorKind::kNotFound, ErrorKind::kRefused})
    if (exit_code(kind) == code) return kind;
  return ErrorKind::kFailure;
}

}  // namespace es::actors::esctl
