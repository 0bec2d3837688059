#include "proto/base/kill_point.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

namespace es {
namespace {

// The signal that ended a child with this environment; 0 if it exited.
int signal_of(const char* point, const char* token, const std::function<void()>& run) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::signal(SIGABRT, SIG_DFL);  // The child does not use the handler of the test program.
    ::setenv("ES_KILL_POINT", point, 1);
    if (token != nullptr) ::setenv("ES_KILL_TOKEN", token, 1);
    run();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void pass(int times) {
  for (int i = 0; i < times; ++i) kill_point("here");
}

TEST_CASE("a process dies at the point that its environment names, and at no other") {
  CHECK(signal_of("here", nullptr, [] { pass(1); }) == SIGKILL);
  CHECK(signal_of("there", nullptr, [] { pass(5); }) == 0);
}

TEST_CASE("a process dies at the N-th time") {
  CHECK(signal_of("here:3", nullptr, [] { pass(2); }) == 0);
  CHECK(signal_of("here:3", nullptr, [] { pass(3); }) == SIGKILL);
  CHECK(signal_of("here:0", nullptr, [] { pass(1); }) == SIGABRT);
  CHECK(signal_of("here:x", nullptr, [] { pass(1); }) == SIGABRT);
}

TEST_CASE("of several processes the one that takes the token dies") {
  const std::filesystem::path token =
      std::filesystem::temp_directory_path() / ("es-token-" + std::to_string(::getpid()));
  std::ofstream(token).close();
  CHECK(signal_of("here", token.c_str(), [] { pass(1); }) == SIGKILL);
  CHECK(!std::filesystem::exists(token));
  CHECK(signal_of("here", token.c_str(), [] { pass(3); }) == 0);
}

TEST_CASE("after a point that lets others finish, the process sends nothing more") {
  const int signal = signal_of("here", nullptr, [] {
    if (kill_point_passed()) ::_exit(0);
    kill_point_after("here");
    if (!kill_point_passed()) ::_exit(0);
    for (;;) ::pause();
  });
  CHECK(signal == SIGKILL);
}

}  // namespace
}  // namespace es
