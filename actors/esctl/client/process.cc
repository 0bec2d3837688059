#include "actors/esctl/client/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "actors/base/gateway/core/endpoint.h"
#include "actors/base/log/line.h"
#include "actors/base/program/private_directory.h"
#include "actors/esctl/client/child_daemon.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReadyTimeout{60};
// The time limit for each of two waits: the one after Shutdown and the one after SIGTERM.
constexpr std::chrono::seconds kEndTimeout{15};
constexpr std::size_t kLogTailBytes = 2000;
constexpr std::string_view kReadyPrefix = "ready ";

Error system_failure(const std::string& what) {
  return failure(what + ": " + std::strerror(errno));
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

}  // namespace

Result<fs::path> find_easyscaled() {
  if (const char* named = std::getenv("EASYSCALED"); named != nullptr && named[0] != '\0') {
    std::error_code unknown;
    if (fs::is_regular_file(named, unknown) && ::access(named, X_OK) == 0) return fs::path(named);
    return not_found(std::string("EASYSCALED = \"") + named + "\": no such program");
  }
  std::error_code code;
  const fs::path here = fs::read_symlink("/proc/self/exe", code).parent_path();
  const std::array<fs::path, 2> candidates{here / "easyscaled",
                                           here.parent_path() / "easyscaled/easyscaled"};
  for (const fs::path& path : candidates)
    if (fs::is_regular_file(path, code) && ::access(path.c_str(), X_OK) == 0) return path;
  return not_found("the program easyscaled was found neither " + candidates[0].string() + " nor " +
                   candidates[1].string() + "; name it in the environment variable EASYSCALED");
}

Result<std::unique_ptr<PrivateDaemon>> PrivateDaemon::start(const DaemonOptions& options,
                                                            StopSignals& signals) {
  std::unique_ptr<PrivateDaemon> daemon(new PrivateDaemon(signals));
  ES_RETURN_IF_ERROR(daemon->prepare(options));
  ES_RETURN_IF_ERROR(daemon->launch(options));
  ES_RETURN_IF_ERROR(daemon->wait_ready());
  return daemon;
}

PrivateDaemon::~PrivateDaemon() {
  if (pid_ != 0) {
    kill_group();
    while (!reap()) wait_for_end(kEndTimeout, signals_.count());
  }
  if (ready_fd_ >= 0) ::close(ready_fd_);
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

bool PrivateDaemon::removes(const fs::path& file) const {
  return file.string().starts_with((directory_ / "").string());
}

std::string PrivateDaemon::log_tail() const {
  std::ifstream in(log_, std::ios::binary);
  std::string text = log::complaints_of(std::string{std::istreambuf_iterator<char>(in), {}});
  if (text.size() > kLogTailBytes) {
    const std::size_t line = text.find('\n', text.size() - kLogTailBytes);
    text.erase(0, line == std::string::npos ? text.size() - kLogTailBytes : line + 1);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void PrivateDaemon::stop(int signals_max) {
  if (wait_for_end(kEndTimeout, signals_max)) return;
  ::kill(pid_, SIGTERM);
  if (wait_for_end(kEndTimeout, signals_max)) return;
  kill_group();
  while (!reap()) wait_for_end(kEndTimeout, signals_.count());
}

Status PrivateDaemon::prepare(const DaemonOptions& options) {
  Result<fs::path> directory = make_temporary_directory();
  if (!directory) return directory.error();
  directory_ = *std::move(directory);
  fs::path files = directory_;
  std::error_code code;
  if (!options.keep.empty()) {
    files = options.keep;
    fs::create_directories(files, code);
    if (!code && !fs::is_empty(files, code) && !code)
      return refused("directory " + files.string() + " is not empty; allowed is a new directory");
  }
  // State and log go to the directory that the user keeps. Sockets stay in the temporary directory,
  // whose path is short enough for them.
  state_ = files / "state";
  log_ = files / "easyscaled.log";
  if (!code) fs::create_directory(directory_ / "run", code);
  if (!code) fs::permissions(directory_ / "run", fs::perms::owner_all, code);
  if (code) return failure("directory " + files.string() + ": " + code.message());
  return {};
}

Status PrivateDaemon::launch(const DaemonOptions& options) {
  endpoint_ = "ipc://" + (directory_ / "head.sock").string();
  std::vector<std::string> words{options.executable.string(),
                                 "--head",
                                 "--state",
                                 state_.string(),
                                 "--listen",
                                 endpoint_,
                                 "--node",
                                 "local",
                                 "--run-dir",
                                 (directory_ / "run").string(),
                                 "--devices",
                                 options.devices.text(),
                                 "--parent-pid",
                                 std::to_string(::getpid())};
  if (options.rescue.empty()) {
    words.push_back("--no-rescue");
  } else {
    words.insert(words.end(), {"--rescue", options.rescue.string()});
  }
  // All memory for the child is allocated before fork().
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const int log_fd = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0) return system_failure("log file " + log_.string());
  std::array<int, 2> output{-1, -1};
  // dup2() clears this flag for the copies in the child, and these alone survive exec.
  if (::pipe2(output.data(), O_CLOEXEC) != 0) {
    ::close(log_fd);
    return system_failure("pipe");
  }
  ready_fd_ = output[0];
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become_daemon(argv.data(), output[1], log_fd, parent, signals_);
  // Otherwise this process itself would keep the pipe open, and wait_ready() would never read its
  // end.
  ::close(output[1]);
  ::close(log_fd);
  if (child < 0) return system_failure("fork");
  ::setpgid(child, child);  // parent and child both set it, so it is set whichever runs first
  pid_ = child;
  return {};
}

Status PrivateDaemon::wait_ready() {
  const Clock::time_point deadline = Clock::now() + kReadyTimeout;
  std::string line;
  for (;;) {
    std::array<pollfd, 2> fds{{{ready_fd_, POLLIN, 0}, {signals_.fd(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), milliseconds_until(deadline)) == 0)
      return failure("easyscaled was not ready within " + std::to_string(kReadyTimeout.count()) +
                     " s; its log:\n" + log_tail());
    signals_.take();
    if (signals_.count() > 0) return failure("interrupted");
    if (fds[0].revents == 0) continue;
    char c = 0;
    // One byte at a time, so nothing is read beyond the line.
    if (::read(ready_fd_, &c, 1) != 1) return ended_early();
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.starts_with(kReadyPrefix)) return {};
    line.clear();
  }
}

// The daemon has closed its output: it has ended, or is about to end.
Error PrivateDaemon::ended_early() {
  if (!wait_for_end(kEndTimeout, 0)) return failure("easyscaled closed its output and did not end");
  const std::string tail = log_tail();
  return {kind_of_exit(exit_status_), "easyscaled ended before it was ready (" +
                                          describe_exit(exit_status_) + ")" +
                                          (tail.empty() ? "" : ":\n" + tail)};
}

// Returns true when the daemon has ended. Until it is reaped, the number of its process group
// cannot be given to another group, so other processes in the group are killed first.
bool PrivateDaemon::reap() {
  if (pid_ == 0) return true;
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (info.si_pid != pid_) return false;
  kill_group();
  ES_CHECK(::waitpid(pid_, &exit_status_, 0) == pid_);
  pid_ = 0;
  return true;
}

bool PrivateDaemon::wait_for_end(std::chrono::milliseconds timeout, int signals_max) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!reap()) {
    const int wait_ms = milliseconds_until(deadline);
    if (wait_ms == 0 || signals_.count() > signals_max) return false;
    pollfd fd{signals_.fd(), POLLIN, 0};  // SIGCHLD makes it readable
    ::poll(&fd, 1, wait_ms);
    signals_.take();
  }
  return true;
}

void PrivateDaemon::kill_group() {
  ::kill(-pid_, SIGKILL);
}

}  // namespace es::actors::esctl
