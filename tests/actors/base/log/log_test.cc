#include "actors/base/log/log.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/check.h"
#include "tests/store/temp_directory.h"

using namespace es;

namespace {

struct Written {
  std::string text;
  int status = 0;  // of waitpid()
  std::vector<std::string> lines() const {
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      found.push_back(text.substr(at, end - at));
      at = end == std::string::npos ? text.size() : end + 1;
    }
    return found;
  }
};

// Runs `body` in a process of its own and returns what it wrote on standard error.
Written written_by(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // the test framework has a handler
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  Written written;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    written.text.append(buffer, static_cast<std::size_t>(count));
  ::close(ends[0]);
  ::waitpid(child, &written.status, 0);
  return written;
}

}  // namespace

TEST_SUITE("actors/base/log/log") {
  TEST_CASE("a process that has not started its log writes nothing") {
    const Written written = written_by([] {
      log::error("unheard");
      if (log::enabled(log::Level::kError)) ::_exit(3);
    });
    CHECK(written.text.empty());
    CHECK(written.status == 0);
  }

  TEST_CASE("lines below the level are left out") {
    const auto messages = [](log::Level level) {
      const Written written = written_by([level] {
        (void)log::start({level, log::Format::kText});
        log::debug("d");
        log::info("i");
        log::warning("w");
        log::error("e");
      });
      std::string letters;
      for (const std::string& line : written.lines()) letters += line.back();
      return letters;
    };
    CHECK(messages(log::Level::kDebug) == "diwe");
    CHECK(messages(log::Level::kInfo) == "iwe");
    CHECK(messages(log::Level::kWarning) == "we");
    CHECK(messages(log::Level::kError) == "e");
  }

  TEST_CASE("every line has what its process is about, unless it says something else") {
    const Written written = written_by([] {
      (void)log::start({log::Level::kInfo, log::Format::kText},
                       {.job = "j", .worker = 7, .node = "n"});
      log::info("own");
      log::info("other", {.node = "m", .peer = "head"});
    });
    REQUIRE(written.lines().size() == 2);
    CHECK(written.lines()[0].ends_with(" worker 7 job j node n: own"));
    CHECK(written.lines()[1].ends_with(" worker 7 job j node m peer head: other"));
  }

  TEST_CASE("lines of several threads are whole") {
    constexpr int kThreads = 4, kLines = 200;
    const std::string long_text(700, 'x');
    const Written written = written_by([&] {
      (void)log::start({log::Level::kInfo, log::Format::kText});
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
          for (int i = 0; i < kLines; ++i) log::info(long_text + std::to_string(t));
        });
      for (std::thread& thread : threads) thread.join();
    });
    std::map<char, int> of_thread;
    const std::string middle = " info    easyscaled: " + long_text;
    for (const std::string& line : written.lines()) {
      REQUIRE(line.size() == 24 + middle.size() + 1);
      REQUIRE(line.substr(24, middle.size()) == middle);
      ++of_thread[line.back()];
    }
    CHECK(of_thread ==
          std::map<char, int>{{'0', kLines}, {'1', kLines}, {'2', kLines}, {'3', kLines}});
  }

  TEST_CASE("nothing is lost when the process aborts, and the failed check is the last line") {
    const Written written = written_by([] {
      (void)log::start({log::Level::kInfo, log::Format::kJson}, {.job = "j", .worker = 7});
      log::info("before");
      ES_CHECK_MSG(false, "as planned");
    });
    CHECK(WIFSIGNALED(written.status));
    CHECK(WTERMSIG(written.status) == SIGABRT);
    REQUIRE(written.lines().size() == 2);
    CHECK(written.lines()[0].find(R"("msg":"before","job":"j","worker":7})") != std::string::npos);
    CHECK(written.lines()[1].find("check failed: false: as planned\"") != std::string::npos);
    CHECK(written.lines()[1].find("\"level\":\"error\"") != std::string::npos);
  }

  TEST_CASE("a log file is replaced when it is full, and errors are on standard error too") {
    const test::TempDirectory directory;
    const auto file = directory / "daemon.log";
    const Written written = written_by([&] {
      const Status started =
          log::start({.file = file.string(), .file_bytes_max = 4000, .older_files = 2});
      if (!started.ok()) ::_exit(3);
      for (int i = 0; i < 200; ++i) log::info("line " + std::to_string(1000 + i));
      log::error("the last words");
    });
    CHECK(written.status == 0);
    REQUIRE(written.lines().size() == 1);
    CHECK(written.text.find("the last words") != std::string::npos);
    // The newest lines are there without a gap.
    std::string all;
    for (const char* name : {"daemon.2.log", "daemon.1.log", "daemon.log"}) {
      CHECK(std::filesystem::file_size(directory / name) <= 4000);
      all += test::read_file(directory / name);
    }
    CHECK_FALSE(std::filesystem::exists(directory / "daemon.3.log"));
    CHECK(all.find("the last words") != std::string::npos);
    const std::size_t first = all.find("line ");
    REQUIRE(first != std::string::npos);
    for (int n = std::stoi(all.substr(first + 5, 4)); n < 1200; ++n)
      CHECK(all.find("line " + std::to_string(n)) != std::string::npos);
  }

  TEST_CASE("a log file that cannot be opened is an error") {
    const Written written = written_by([] {
      const Status started = log::start({.file = "/proc/none/x.log"});
      if (started.ok() || started.error().message.find("/proc/none/x.log") == std::string::npos)
        ::_exit(3);
    });
    CHECK(written.status == 0);
  }
}
