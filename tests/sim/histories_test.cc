// Many random histories of faults, each from its own seed. ES_SIM_HISTORIES=N runs N histories
// instead.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "tests/sim/fault_history.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

constexpr std::uint64_t kHistories = 800;

std::uint64_t history_count() {
  const char* text = std::getenv("ES_SIM_HISTORIES");
  return text == nullptr ? kHistories : std::strtoull(text, nullptr, 10);
}

HistoryReport run_guarded(std::uint64_t seed) {
  try {
    return run_fault_history(seed);
  } catch (const std::exception& thrown) {
    return {.error = thrown.what(), .done = {}};
  }
}

TEST_SUITE("sim/histories") {
  TEST_CASE("every job ends with its bits, with any faults of processes, machines and links") {
    const std::uint64_t base = seed("histories");
    const std::uint64_t count = history_count();
    std::map<std::string, int> done;
    for (std::uint64_t s = base; s < base + count; ++s) {
      INFO("replay with scripts/sim_faults --histories 1 --seed " << s);
      const HistoryReport report = run_guarded(s);
      CHECK_MESSAGE(report.error.empty(), report.error);
      if (!report.error.empty())
        std::printf("failed seed %llu: %s\n", static_cast<unsigned long long>(s),
                    report.error.c_str());
      for (const auto& [what, times] : report.done) done[what] += times;
    }
    for (const auto& [what, times] : done) std::printf("%7d %s\n", times, what.c_str());
    // A job fails when most of its processes die again and again, which is rare.
    CHECK(done["gave up"] * 20 <= static_cast<int>(count));
    CHECK(done["result not kept"] * 10 <= static_cast<int>(count));
    if (count < kHistories) return;
    for (const char* what : {"caught", "caught and frozen", "head caught", "wrote to a full disk"})
      CHECK(done[what] > 0);
    // The numbers of resizes, kills and resumes during which each sample was used exactly once.
    int disturbances = 0;
    for (const char* what : {"scale", "kill one", "kill several", "kill all", "kill all but one",
                             "caught", "kill head", "head dies at a write"})
      disturbances += done[what];
    CHECK(disturbances >= 1000);
  }
}

}  // namespace
}  // namespace es::test
