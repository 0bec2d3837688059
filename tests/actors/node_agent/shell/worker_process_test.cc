#include "actors/node_agent/shell/worker_process.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

using namespace es;
using namespace es::actors;

namespace {

class LogFile {
 public:
  LogFile()
      : path_(std::filesystem::temp_directory_path() /
              ("es-process-" + std::to_string(::getpid()) + ".log")) {}
  ~LogFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

ProcessExit run(const std::vector<std::string>& command) {
  const LogFile log;
  const auto pid = start_process(command, log.path());
  REQUIRE(pid.ok());
  const ProcessExit exit = wait_for_process(*pid, log.path());
  reap_process(*pid);
  return exit;
}

}  // namespace

TEST_SUITE("actors/node_agent/worker_process") {
  TEST_CASE("the exit status and the last words of a process are reported") {
    const ProcessExit exit = run({"/bin/sh", "-c", "echo first; echo 'no such data' >&2; exit 3"});
    CHECK(exit.exit_code == 3);
    CHECK(exit.signal == 0);
    CHECK(describe(exit) == "exited with status 3: first\nno such data");
  }

  TEST_CASE("the report on a process that a signal ended names the signal") {
    const ProcessExit exit = run({"/bin/sh", "-c", "kill -9 $$"});
    CHECK(exit.signal == SIGKILL);
    CHECK(describe(exit).find("signal 9") != std::string::npos);
  }

  TEST_CASE("only the end of a long error output is kept") {
    const ProcessExit exit =
        run({"/bin/sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"});
    CHECK(exit.last_words.size() <= kLastWordsBytesMax);
    CHECK(exit.last_words.ends_with("line 1999"));
  }

  TEST_CASE("of the log of a process its errors and warnings are last words, in both forms") {
    const auto last_words = [](const std::string& script) {
      return run({"/bin/sh", "-c", script}).last_words;
    };
    CHECK(
        last_words("echo '2026-11-22T17:31:02.123Z info    worker 2 job j: begins'"
                   "; echo '2026-11-22T17:31:02.124Z warning worker 2 job j: slow'"
                   "; echo '2026-11-22T17:31:02.125Z error   worker 2 job j: no such data' >&2") ==
        "warning: slow\nno such data");
    CHECK(last_words("echo '{\"ts\":\"\",\"level\":\"info\",\"msg\":\"begins\"}'"
                     "; echo '{\"ts\":\"\",\"level\":\"error\",\"msg\":\"no such data\"}'"
                     "; echo Killed") == "no such data\nKilled");
  }

  TEST_CASE("an error before many other lines is kept, and so is the end of one very long line") {
    const ProcessExit noisy = run({"/bin/sh", "-c",
                                   "echo '2026-11-22T17:31:02.125Z error   worker 2 job j: no such "
                                   "data'; i=0; while [ $i -lt "
                                   "100 ]; do echo '2026-11-22T17:31:02.126Z info    worker 2 job "
                                   "j: more'; i=$((i+1)); done"});
    CHECK(noisy.last_words == "no such data");
    const ProcessExit long_line =
        run({"/bin/sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; echo y"});
    CHECK(long_line.last_words == std::string(kLastWordsBytesMax - 1, 'x') + "y");
  }

  TEST_CASE("a program that does not exist ends with status 127") {
    CHECK(run({"/no/such/program"}).exit_code == 127);
  }

  TEST_CASE("a log file that cannot be written is an error before any process is started") {
    const auto pid = start_process({"/bin/true"}, "/no/such/directory/log");
    REQUIRE_FALSE(pid.ok());
    CHECK(pid.error().message.find("/no/such/directory/log") != std::string::npos);
  }
}
