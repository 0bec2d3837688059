// The clock and the timers of a job.
#include <doctest/doctest.h>

#include <vector>

#include "actors/head/intra_job/shell/job_clock.h"
#include "actors/head/intra_job/shell/job_timer.h"

namespace es::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Times {
  Instant real = seconds(10);
  std::uint64_t date = 0;
  JobClock clock{[this] { return real; }, [this] { return date; }};
};

TEST_SUITE("actors/head/intra_job/times") {
  TEST_CASE("the core's time lacks the time for which it stood still") {
    Times times;
    times.clock.stand_still();
    times.real = seconds(14);
    times.clock.stand_still();  // It stands still already.
    CHECK(times.clock.now() == seconds(10));
    CHECK(times.clock.real() == seconds(14));
    times.clock.go_on();
    CHECK(times.clock.now() == seconds(10));
    times.real = seconds(15);
    CHECK(times.clock.now() == seconds(11));
    times.clock.go_on();
    CHECK(times.clock.now() == seconds(11));
  }

  TEST_CASE("several pauses of the core's time add up") {
    Times times;
    for (int pause = 0; pause < 3; ++pause) {
      times.clock.stand_still();
      times.real += seconds(4);
      times.clock.go_on();
      times.real += seconds(1);
    }
    CHECK(times.clock.now() == seconds(13));
  }

  TEST_CASE("the date of time 0 follows from the date, if there is one") {
    Times times;
    CHECK(times.clock.date_of_zero() == 0);
    times.date = 1'000'000;
    CHECK(times.clock.date_of_zero() == 990'000);
  }

  TEST_CASE("a timer fires at the whole second after the time") {
    std::vector<Instant> delays;
    JobTimer timer([&](Instant delay) { delays.push_back(delay); });
    timer.arm(std::nullopt, seconds(1));
    CHECK_FALSE(timer.is_running());
    timer.arm(milliseconds(2300), milliseconds(1500));
    CHECK(delays == std::vector<Instant>{milliseconds(1500)});
    timer.arm(seconds(0), seconds(7));  // The time has passed long ago.
    CHECK(delays.size() == 1);          // The timer that runs is earlier.
  }

  TEST_CASE("only an earlier time sets another timer, and all of them fire") {
    std::vector<Instant> delays;
    JobTimer timer([&](Instant delay) { delays.push_back(delay); });
    timer.arm(seconds(9), seconds(1));
    timer.arm(milliseconds(9500), seconds(1));
    CHECK(delays.size() == 1);
    timer.arm(seconds(4), seconds(1));
    CHECK(delays == std::vector<Instant>{seconds(9), seconds(4)});
    timer.fired();
    CHECK(timer.is_running());
    timer.arm(seconds(12), seconds(5));
    CHECK(delays.size() == 3);
    timer.fired();
    timer.fired();
    CHECK_FALSE(timer.is_running());
  }
}

}  // namespace
}  // namespace es::actors
