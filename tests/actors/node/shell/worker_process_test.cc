#include "actors/node/shell/worker_process.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "actors/node/shell/oom_kills.h"

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

TEST_SUITE("actors/node/worker_process") {
  TEST_CASE("the exit status and the last words of a process are reported") {
    const ProcessExit exit = run({"/bin/sh", "-c", "echo first; echo 'no such data' >&2; exit 3"});
    CHECK(exit.exit_code == 3);
    CHECK(exit.signal == 0);
    CHECK(describe(exit) == "exited with status 3: first\nno such data");
  }

  TEST_CASE("the kernel chooses a worker before the daemon if memory runs out") {
    CHECK(run({"/bin/sh", "-c", "exit $(($(cat /proc/self/oom_score_adj) / 100))"}).exit_code == 5);
  }

  TEST_CASE("the report on a process that a signal ended names the signal") {
    const ProcessExit exit = run({"/bin/sh", "-c", "kill -9 $$"});
    CHECK(exit.signal == SIGKILL);
    CHECK(describe(exit).find("signal 9") != std::string::npos);
  }

  TEST_CASE("an exit says what ended the process, and of which kind the end is") {
    const ProcessExit crash{.exit_code = -1, .signal = SIGSEGV, .last_words = ""};
    CHECK(describe(crash) == "was ended by signal 11 (SIGSEGV, Segmentation fault)");
    CHECK(cause_of(crash) == EndCause::kItself);
    CHECK(way_of(crash) == "signal 11");
    const ProcessExit killed{.exit_code = -1, .signal = SIGKILL, .last_words = ""};
    CHECK(cause_of(killed) == EndCause::kKilled);
    ProcessExit oom = killed;
    oom.out_of_memory = true;
    CHECK(describe(oom).find("signal 9 (SIGKILL, Killed): out of memory") != std::string::npos);
    CHECK(cause_of(oom) == EndCause::kItself);
    CHECK(way_of(oom) == "out of memory");
    CHECK(cause_of({.exit_code = 1, .last_words = "no data"}) == EndCause::kItself);
    CHECK(cause_of({.exit_code = 0, .last_words = ""}) == EndCause::kKilled);
    CHECK(cause_of({.exit_code = kNodeUnusable, .last_words = ""}) == EndCause::kNode);
    CHECK(cause_of(run({"/no/such/program"})) == EndCause::kNode);
  }

  TEST_CASE("the counters of the kernel are found in both versions of control groups") {
    CHECK(counter_files("9:name=systemd:/\n4:memory:/a/b\n0::/c\n") ==
          std::vector<std::string>{"/sys/fs/cgroup/memory/a/b/memory.oom_control",
                                   "/sys/fs/cgroup/c/memory.events"});
    CHECK(counter_of("oom 3\noom_kill 2\noom_group_kill 0\n", "oom_kill") == 2);
    CHECK(counter_of("oom_kill_disable 0\nunder_oom 0\noom_kill 7", "oom_kill") == 7);
    CHECK_FALSE(counter_of("oom_kill_disable 0\n", "oom_kill").has_value());
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
