#include "actors/base/gateway/core/limited_log.h"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

namespace es::actors {
namespace {

TEST_SUITE("actors/base/gateway/limited_log") {
  TEST_CASE("a cause is logged once a second, with the number of lines that were left out") {
    std::vector<std::string> lines;
    LimitedLog log([&](const std::string& line) { lines.push_back(line); });
    const LimitedLog::Time start{};
    for (int i = 0; i < 5; ++i) log.line(start, "refused", "peer " + std::to_string(i));
    log.line(start, "lost", "peer 1");
    log.line(start + std::chrono::seconds(1), "refused", "peer 9");
    log.line(start + std::chrono::seconds(2), "refused", "peer 10");
    CHECK(lines == std::vector<std::string>{"refused: peer 0", "lost: peer 1",
                                            "refused: peer 9 (and 4 more)", "refused: peer 10"});
  }
}

}  // namespace
}  // namespace es::actors
