#include "actors/head/intra_job/shell/job_log_end.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::actors;

namespace {

constexpr auto kNow = std::chrono::system_clock::time_point(std::chrono::milliseconds(0));
const std::string kFirst = "2026-11-22T17:31:02.123Z info    job is finished\n";
const std::string kLast = "1970-01-01T00:00:00.000Z info    job ended: finished\n";

struct LogFile {
  test::TempDirectory directory;
  std::filesystem::path path = directory / "job.log";

  explicit LogFile(const std::string& text) { std::ofstream(path) << text; }
  void complete() { complete_job_log(path, job_log_end(JobState::kFinished, ""), kNow); }
  std::string text() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_CASE("a log whose head died before the last line gets that line, once") {
  LogFile log(kFirst);
  log.complete();
  CHECK(log.text() == kFirst + kLast);
  log.complete();
  CHECK(log.text() == kFirst + kLast);
}

TEST_CASE("a line that was written partly is kept, and the last line follows it") {
  const std::string torn = kFirst + "2026-11-22T17:31:03.000Z info    job en";
  LogFile log(torn);
  log.complete();
  CHECK(log.text() == torn + "\n" + kLast);
}

TEST_CASE("a last line that is longer than most logs is known as one") {
  LogFile log(kFirst);
  const JobLogEnd end = job_log_end(JobState::kFailed, std::string(100'000, 'x'));
  complete_job_log(log.path, end, kNow);
  const std::string once = log.text();
  complete_job_log(log.path, end, kNow);
  CHECK(log.text() == once);
}

TEST_CASE("an earlier message about an end is not the last line") {
  const std::string other = "2026-11-22T17:31:02.123Z info    job ended: failed\n" + kFirst;
  LogFile log(other);
  log.complete();
  CHECK(log.text() == other + kLast);
}

TEST_CASE("a log that was removed is not written again") {
  LogFile log(kFirst);
  std::filesystem::remove(log.path);
  log.complete();
  CHECK_FALSE(std::filesystem::exists(log.path));
}

TEST_CASE("the end of a failed job is an error and says why") {
  const JobLogEnd end = job_log_end(JobState::kFailed, "its data are away");
  CHECK(end.text == "job ended: failed: its data are away");
  CHECK(end.level == log::Level::kError);
}

}  // namespace
