#include "actors/views/log_filter.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::actors;
using namespace std::chrono_literals;

namespace {

// 2026-11-22T17:31:02.123Z
constexpr std::chrono::system_clock::time_point kNow{std::chrono::milliseconds(1795368662123)};

}  // namespace

TEST_SUITE("actors/views/log_filter") {
  TEST_CASE("since is a duration before now, or a time") {
    CHECK(parse_since("90s", kNow).value() == kNow - 90s);
    CHECK(parse_since("10m", kNow).value() == kNow - 10min);
    CHECK(parse_since("2h", kNow).value() == kNow - 2h);
    CHECK(parse_since("3d", kNow).value() == kNow - 72h);
    CHECK(parse_since("2026-11-22T17:31:02.123Z", kNow).value() == kNow);
    CHECK(parse_since("2026-11-22T17:31", kNow).value() == kNow - 2123ms);
  }

  TEST_CASE("another text is refused with what is allowed") {
    for (const char* text : {"", "10", "m", "10 m", "-1m", "1.5h", "10w", "99999999999999999999s",
                             "18446744073709551615d", "17:31", "yesterday", "2026-13-01"}) {
      CAPTURE(text);
      const auto since = parse_since(text, kNow);
      REQUIRE_FALSE(since);
      CHECK(since.error().kind == ErrorKind::kUsage);
      CHECK(since.error().message.find("10m") != std::string::npos);
    }
  }

  TEST_CASE("a line is shown if it is as late, as serious and has the text") {
    const log::JobLine line{kNow, log::Level::kWarning, "worker 2 was killed"};
    CHECK(shows({}, line));
    CHECK(shows({.since = kNow}, line));
    CHECK_FALSE(shows({.since = kNow + 1ms}, line));
    CHECK(shows({.text = "2 was"}, line));
    CHECK_FALSE(shows({.text = "Worker"}, line));
    CHECK(shows({.level_min = log::Level::kWarning}, line));
    CHECK_FALSE(shows({.level_min = log::Level::kError}, line));
  }

  TEST_CASE("a line without a time is older than every time") {
    const log::JobLine line{.message = "job is running"};
    CHECK(shows({}, line));
    CHECK_FALSE(shows({.since = kNow - 24h}, line));
  }
}
