#include "actors/head/intra_job/shell/job_log.h"

#include <doctest/doctest.h>

#include <iterator>
#include <string>
#include <vector>

#include "tests/store/temp_directory.h"

namespace es::actors {
namespace {

const std::string kEarlier = "2026-11-22T17:31:02.123Z info    job is running";
const std::string kLine = "1970-01-01T00:00:00.007Z warning its disk is slow";

struct Bench {
  test::TempDirectory directory;
  std::filesystem::path file = directory / "job.log";
  JobClock clock{[] { return Instant{}; }, [] { return std::uint64_t{7}; }};
  std::vector<std::string> told;

  JobLog open() {
    return {"j", file, clock, [this](const std::string& line) { told.push_back(line); }};
  }
  std::string text() const {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_SUITE("actors/head/intra_job/job_log") {
  TEST_CASE("a line follows those of an earlier head, in memory and in the file") {
    Bench b;
    std::ofstream(b.file) << kEarlier << '\n';
    JobLog log = b.open();
    CHECK(b.told.empty());
    log.write("its disk is slow", log::Level::kWarning);
    CHECK(log.lines() == std::deque<std::string>{kEarlier, kLine});
    CHECK(b.told == std::vector<std::string>{kLine});
    CHECK(b.text() == kEarlier + '\n' + kLine + '\n');
  }

  TEST_CASE("after the file is closed, lines are kept in memory") {
    Bench b;
    JobLog log = b.open();
    log.close_file();
    log.write("its disk is slow", log::Level::kWarning);
    CHECK(log.lines() == std::deque<std::string>{kLine});
    CHECK(b.text().empty());
  }

  TEST_CASE("only the newest lines are kept in memory") {
    Bench b;
    JobLog log("j", {}, b.clock, [](const std::string&) {});
    for (std::size_t i = 0; i < kLogLinesMax + 2; ++i) log.write(std::to_string(i));
    CHECK(log.lines().size() == kLogLinesMax);
    CHECK(log.lines().front().ends_with(" 2"));
  }
}

}  // namespace
}  // namespace es::actors
