#include "proto/base/check.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "proto/base/check_ok.h"
#include "proto/base/check_report.h"

using namespace es;

namespace {

// Returns what `body` writes on standard error in a process of its own, which it must abort.
std::string last_words_of(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // the test framework has a handler
    ::dup2(ends[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[1024];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  return text;
}

std::string place(int line) {
  return std::string(__FILE__) + ":" + std::to_string(line) + ": check failed: ";
}

}  // namespace

TEST_SUITE("proto/base/check") {
  TEST_CASE("a failed check ends the process and says where, what and why") {
    const int line = __LINE__ + 1;
    const std::string bare = last_words_of([] { ES_CHECK(1 + 1 == 3); });
    const std::string detailed = last_words_of([] { ES_CHECK_MSG(false, "a reason"); });
    CHECK(bare == place(line) + "1 + 1 == 3\n");
    CHECK(detailed == place(line + 1) + "false: a reason\n");
  }

  TEST_CASE("an error that the contract rules out ends the process with its message") {
    const Status broken = failure("the disk is gone");
    const Result<int> none = refused("no number");
    const int line = __LINE__ + 1;
    const std::string status = last_words_of([&] { ES_CHECK_OK(broken, "journal"); });
    const std::string result = last_words_of([&] { ES_CHECK_OK(none, "counter"); });
    CHECK(status == place(line) + "journal: the disk is gone\n");
    CHECK(result == place(line + 1) + "counter: no number\n");
  }

  TEST_CASE("without an error nothing happens, and the expression is evaluated once") {
    int calls = 0;
    const auto fine = [&] {
      ++calls;
      return Status();
    };
    ES_CHECK_OK(fine(), "journal");
    CHECK(calls == 1);
    ES_CHECK_OK(Result<int>(3), "counter");
  }

  TEST_CASE("a program may say where the text goes") {
    const int line = __LINE__ + 6;
    const std::string text = last_words_of([] {
      report_checks_to([](const std::string& failed) {
        const std::string logged = "log: " + failed + "\n";
        (void)!::write(STDERR_FILENO, logged.data(), logged.size());
      });
      ES_CHECK(false);
    });
    CHECK(text == "log: " + place(line) + "false\n");
  }
}
