// Arrays of which only some ranges have memory.
#include "gpu/base/held_array.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <random>
#include <string>

#include "tests/support/resident_bytes.h"
#include "tests/support/seed.h"
#include "tests/support/signal_of.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kLarge = 8 << 20;  // floats: 32 MiB

}  // namespace

TEST_SUITE("gpu/held_array") {
  TEST_CASE("what stays held keeps its values, what is new is zero, and copies are equal") {
    std::mt19937_64 random(test::seed("held array"));
    for (const std::int64_t floats :
         {std::int64_t{1}, std::int64_t{1000}, std::int64_t{70'000}, std::int64_t{700'003}}) {
      HeldArray array(floats, std::vector<FloatRange>(), "a test");
      // What the array must contain; a NaN stands for a float that is not held.
      const float nothing = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> expected(static_cast<std::size_t>(floats), nothing);
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<FloatRange> ranges;
        std::vector<bool> held(expected.size(), false);
        for (std::int64_t at = static_cast<std::int64_t>(random() % 5000); at < floats;) {
          const auto length = static_cast<std::int64_t>(1 + random() % 30'000);
          ranges.push_back({at, std::min(floats, at + length)});
          std::fill(held.begin() + at, held.begin() + ranges.back().end, true);
          at = ranges.back().end + static_cast<std::int64_t>(random() % 20'000);
        }
        array.hold(ranges, "a test");
        for (std::size_t i = 0; i < held.size(); ++i)
          expected[i] = !held[i] ? nothing : expected[i] == expected[i] ? expected[i] : 0.0F;
        const auto check = [&](const HeldArray& got) {
          bool equal = true;
          std::int64_t count = 0;
          for (const FloatRange& range : got.held())
            for (std::int64_t i = range.begin; i < range.end; ++i, ++count)
              equal = equal && got.data()[i] == expected[static_cast<std::size_t>(i)];
          CHECK(equal);
          CHECK(count == std::count(held.begin(), held.end(), true));
          CHECK(count == got.held_floats());
        };
        check(array);
        check(HeldArray(array));
        for (const FloatRange& range : ranges)
          for (std::int64_t i = range.begin; i < range.end; ++i)
            array.data()[i] = expected[static_cast<std::size_t>(i)] =
                static_cast<float>(random() % 1000 + 1);
      }
      HeldArray moved(std::move(array));
      CHECK(array.data() == nullptr);
      CHECK(moved.floats() == floats);
    }
  }

  TEST_CASE("an access to floats that are not held ends the process") {
    HeldArray array(kLarge, "a test");
    array.data()[kLarge / 2] = 1.0F;
    const std::vector<FloatRange> first{{0, kLarge / 4}};
    volatile float seen = 0.0F;
    const auto read_middle = [&] { seen = array.data()[kLarge / 2]; };
    CHECK(test::signal_of(read_middle) == 0);
    array.hold(first, "a test");
    CHECK(test::signal_of(read_middle) == SIGSEGV);
    CHECK(test::signal_of([&] { seen = array.data()[kLarge / 4 - 1]; }) == 0);
    array.hold(std::vector<FloatRange>{{0, kLarge}}, "a test");
    CHECK(test::signal_of(read_middle) == 0);
    CHECK(array.data()[kLarge / 2] == 0.0F);
  }

  TEST_CASE("memory of what is let go returns to the system") {
    HeldArray array(kLarge, "a test");
    const std::int64_t all = test::private_bytes();
    array.hold(std::vector<FloatRange>{{0, kLarge / 4}}, "a test");
    CHECK(all - test::private_bytes() == kLarge * 3);  // three quarters of four bytes each
    array.hold({}, "a test");
    CHECK(all - test::private_bytes() == kLarge * 4);
    array.hold(std::vector<FloatRange>{{5, kLarge - 5}}, "a test");
    CHECK(all == test::private_bytes());
  }

#ifndef __SANITIZE_ADDRESS__
  TEST_CASE("without memory for more, what was held stays held") {
    CHECK(test::signal_of([] {
            HeldArray array(kLarge, std::vector<FloatRange>{{0, 100}}, "a test");
            array.data()[99] = 2.0F;
            const rlim_t limit = static_cast<rlim_t>(test::private_bytes()) + (8 << 20);
            const rlimit both{limit, limit};
            ::setrlimit(RLIMIT_DATA, &both);
            array.hold(std::vector<FloatRange>{{0, kLarge / 8}}, "a test");  // 4 MiB
            array.hold(std::vector<FloatRange>{{0, 100}}, "a test");
            bool refused = false;
            try {
              array.hold(std::vector<FloatRange>{{50, kLarge}}, "a test");
            } catch (const NoMemory& missing) {
              refused = std::string(missing.what()).starts_with("not enough memory for a test: ");
            }
            const bool kept =
                array.held() == std::vector<FloatRange>{{50, 100}} && array.data()[99] == 2.0F;
            if (!refused || !kept) std::abort();
          }) == 0);
  }
#endif
}

}  // namespace es::gpu
