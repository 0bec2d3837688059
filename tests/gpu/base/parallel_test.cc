#include "gpu/base/parallel.h"

#include <doctest/doctest.h>

#include <latch>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "gpu/base/float_flags.h"

TEST_SUITE("gpu/parallel") {
  using namespace es::gpu;

  TEST_CASE("every part runs once, with any number of threads, in every run") {
    for (const std::uint32_t threads : {0U, 1U, 2U, 3U, 7U}) {
      Parallel parallel(threads);
      CHECK(parallel.threads() == static_cast<int>(std::max(1U, threads)));
      for (int run = 0; run < 2000; ++run) {
        const int parts = run % 11;
        std::vector<int> calls(11, 0);  // Each part writes its own element only.
        parallel.run(parts, [&](int part) { ++calls[static_cast<std::size_t>(part)]; });
        for (int part = 0; part < 11; ++part)
          REQUIRE(calls[static_cast<std::size_t>(part)] == (part < parts ? 1 : 0));
      }
    }
  }

  TEST_CASE("threads that are all busy keep their parts from run to run") {
    constexpr int kThreads = 3;
    Parallel parallel(kThreads);
    std::vector<std::thread::id> first(kThreads), now(kThreads);
    for (int run = 0; run < 200; ++run) {
      std::latch all_at_work(kThreads);  // This makes each thread do one part.
      parallel.run(kThreads, [&](int part) {
        now[static_cast<std::size_t>(part)] = std::this_thread::get_id();
        all_at_work.arrive_and_wait();
      });
      if (run == 0) first = now;
      REQUIRE(now == first);
    }
    CHECK(first[0] == std::this_thread::get_id());
  }

  TEST_CASE("ranges cover everything once and are cut at multiples of the grain") {
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      Parallel parallel(threads);
      for (const std::int64_t grain : {1, 4, 16})
        for (std::int64_t count = 0; count < 70; ++count) {
          std::vector<int> seen(70, 0);
          std::atomic<int> crooked{0};
          parallel.for_range(count, grain, [&](std::int64_t begin, std::int64_t end) {
            if (begin % grain != 0 || (end % grain != 0 && end != count)) ++crooked;
            for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
          });
          REQUIRE(crooked == 0);
          REQUIRE(std::accumulate(seen.begin(), seen.begin() + count, 0) == count);
          REQUIRE(std::accumulate(seen.begin(), seen.end(), 0) == count);
        }
    }
  }

  TEST_CASE("an overflow in any part sets the flags of the caller, and nothing else sets them") {
    for (const std::uint32_t threads : {1U, 3U}) {
      Parallel parallel(threads);
      for (int bad = -1; bad < 6; ++bad) {
        clear_non_finite_flags();
        std::vector<float> x(6, 1.0F);
        if (bad >= 0) x[static_cast<std::size_t>(bad)] = std::numeric_limits<float>::max();
        parallel.run(6, [&](int part) {
          volatile float v = x[static_cast<std::size_t>(part)];
          v = v * 2.0F;
        });
        CHECK((non_finite_flags() != 0) == (bad >= 0));
      }
    }
    clear_non_finite_flags();
  }
}
