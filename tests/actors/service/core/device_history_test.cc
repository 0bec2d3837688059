// What each device did over time.
#include "actors/service/core/device_history.h"

#include <doctest/doctest.h>

TEST_SUITE("http/device_history") {
  using namespace es::actors::http;

  TEST_CASE("a node has the points of its own devices") {
    DeviceHistory history(4, 8);
    history.add({"n1", "x#0"}, 1000, {.held = true, .computing = 0.5, .peak_rss_mib = 100});
    history.add({"n1", "x#1"}, 1000, {});
    history.add({"n10", "x#0"}, 1000, {});
    const auto points = history.of_node("n1");
    REQUIRE(points.size() == 2);
    const DevicePoint& point = points.at("x#0").at(0);
    CHECK(point.unix_ms == 1000);
    CHECK(point.held == 1);
    CHECK(point.computing == 0.5);
    CHECK(point.peak_rss_mib == 100);
    CHECK_FALSE(point.sent_bytes_ps);
    CHECK(history.of_node("n2").empty());
  }

  TEST_CASE("many samples become means of the values that are known") {
    DeviceHistory history(2, 8);
    for (std::uint64_t i = 0; i < 4; ++i)
      history.add({"n", "x#0"}, i,
                  {.held = i < 3, .computing = i == 0 ? std::nullopt : std::optional(double(i))});
    const auto points = history.of_node("n").at("x#0");
    REQUIRE(points.size() == 2);
    CHECK(points[0].computing == 1);
    CHECK(points[1].computing == 2.5);
    CHECK(points[1].held == 0.5);
    CHECK(points[1].unix_ms == 3);
  }

  TEST_CASE("a rate is that of one process") {
    DeviceHistory history(4, 8);
    const DeviceHistory::Key device{"n", "x#0"};
    CHECK_FALSE(history.rate(device, {.incarnation = 1, .unix_ms = 1000, .bytes = 50}));
    CHECK(history.rate(device, {.incarnation = 1, .unix_ms = 3000, .bytes = 250}) == 100);
    CHECK_FALSE(history.rate(device, {.incarnation = 2, .unix_ms = 4000, .bytes = 300}));
    CHECK(history.rate(device, {.incarnation = 2, .unix_ms = 5000, .bytes = 300}) == 0);
    CHECK_FALSE(history.rate(device, {.incarnation = 2, .unix_ms = 5000, .bytes = 400}));
  }

  TEST_CASE("devices that are gone are forgotten, and their number is bounded") {
    DeviceHistory history(4, 2);
    for (const char* device : {"x#0", "x#1", "x#2"}) history.add({"n", device}, 1, {});
    CHECK(history.of_node("n").size() == 2);
    history.keep_only({{"n", "x#1"}});
    CHECK(history.of_node("n").size() == 1);
    CHECK(history.of_node("n").contains("x#1"));
  }
}
