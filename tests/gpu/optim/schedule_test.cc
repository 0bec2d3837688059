#include "gpu/optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>

TEST_SUITE("gpu/optim/schedule") {
  using es::ScheduleSpec;
  using es::gpu::cos_pi;
  using es::gpu::learning_rate;

  TEST_CASE("the cosine is exact at the ends and the middle, and close everywhere") {
    CHECK(cos_pi(0.0) == 1.0);
    CHECK(cos_pi(0.5) == 0.0);
    CHECK(cos_pi(1.0) == -1.0);
    double worst = 0.0;
    for (int i = 0; i <= 100000; ++i) {
      const double x = i / 100000.0;
      const auto exact =
          std::cos(3.14159265358979323846264338327950288L * static_cast<long double>(x));
      worst = std::max(worst, std::abs(static_cast<double>(cos_pi(x) - exact)));
    }
    CHECK(worst < 3e-16);
  }

  TEST_CASE("a constant schedule keeps the rate") {
    CHECK(learning_rate({}, 0.1, 0, 0) == 0.1F);
    CHECK(learning_rate({}, 0.1, 1'000'000, 0) == 0.1F);
  }

  TEST_CASE("a step schedule multiplies by gamma after every step_size steps") {
    const ScheduleSpec schedule{.kind = "step", .step_size = 10, .gamma = 0.5, .warmup_steps = 0};
    CHECK(learning_rate(schedule, 0.8, 9, 0) == 0.8F);
    CHECK(learning_rate(schedule, 0.8, 10, 0) == 0.4F);
    CHECK(learning_rate(schedule, 0.8, 35, 0) == 0.1F);
  }

  TEST_CASE("a cosine schedule falls from the rate to zero and stays there") {
    const ScheduleSpec schedule{.kind = "cosine", .step_size = 0, .gamma = 0.1, .warmup_steps = 0};
    CHECK(learning_rate(schedule, 0.2, 0, 100) == 0.2F);
    CHECK(learning_rate(schedule, 0.2, 50, 100) == 0.1F);
    CHECK(learning_rate(schedule, 0.2, 25, 100) == doctest::Approx(0.1 * (1 + std::sqrt(0.5))));
    CHECK(learning_rate(schedule, 0.2, 100, 100) == 0.0F);
    CHECK(learning_rate(schedule, 0.2, 1000, 100) == 0.0F);
  }

  TEST_CASE("a schedule with a floor ends at this share of the rate") {
    ScheduleSpec schedule{.kind = "cosine", .step_size = 0, .gamma = 0.1, .floor = 0.25};
    CHECK(learning_rate(schedule, 0.2, 0, 100) == 0.2F);
    CHECK(learning_rate(schedule, 0.2, 50, 100) == 0.125F);
    CHECK(learning_rate(schedule, 0.2, 1000, 100) == 0.05F);
    schedule.kind = "linear";
    CHECK(learning_rate(schedule, 0.2, 50, 100) == 0.125F);
    CHECK(learning_rate(schedule, 0.2, 1000, 100) == 0.05F);
  }

  TEST_CASE("plateau: the rate is lowered as often as evaluations have decided, as by torch") {
    ScheduleSpec schedule{.kind = "plateau", .gamma = 0.3, .min_rate = 1e-3};
    const double falls[] = {0.1, 0.03, 0.009, 0.0026999999999999997, 0.001, 0.001};
    for (std::uint32_t n = 0; n < 6; ++n)
      CHECK(learning_rate(schedule, 0.1, 7, 0, n) == static_cast<float>(falls[n]));
    // A power of gamma would be another double: 0.05904900000000001.
    schedule = {.kind = "plateau", .gamma = 0.9, .epsilon = 5e-3};
    const double small_falls[] = {0.1,
                                  0.09000000000000001,
                                  0.08100000000000002,
                                  0.07290000000000002,
                                  0.06561000000000002,
                                  0.05904900000000002,
                                  0.05314410000000002,
                                  0.04782969000000002,
                                  0.04782969000000002};
    for (std::uint32_t n = 0; n < 9; ++n)
      CHECK(learning_rate(schedule, 0.1, 7, 0, n) == static_cast<float>(small_falls[n]));
    schedule.warmup_steps = 4;
    CHECK(learning_rate(schedule, 0.1, 1, 0, 1) == static_cast<float>(0.09000000000000001 * 2 / 4));
  }

  TEST_CASE("points: linear between them, constant behind the last one, with jumps between steps") {
    const ScheduleSpec schedule{.kind = "points",
                                .points = {{0, 0.5}, {4, 1.0}, {10, 1.0}, {11, 0.25}}};
    CHECK(learning_rate(schedule, 0.4, 0, 0) == 0.2F);
    CHECK(learning_rate(schedule, 0.4, 1, 0) == 0.25F);
    CHECK(learning_rate(schedule, 0.4, 4, 0) == 0.4F);
    CHECK(learning_rate(schedule, 0.4, 10, 0) == 0.4F);
    CHECK(learning_rate(schedule, 0.4, 11, 0) == 0.1F);
    CHECK(learning_rate(schedule, 0.4, 1'000'000, 0) == 0.1F);
  }

  TEST_CASE("powers by repeated squaring") {
    CHECK(es::gpu::power(0.5, 0) == 1.0);
    CHECK(es::gpu::power(0.5, 10) == std::ldexp(1.0, -10));
    CHECK(es::gpu::power(0.9, 7) == doctest::Approx(std::pow(0.9, 7)).epsilon(1e-15));
  }

  TEST_CASE("warm-up raises the rate linearly to its full value") {
    const ScheduleSpec schedule{
        .kind = "constant", .step_size = 0, .gamma = 0.1, .warmup_steps = 4};
    CHECK(learning_rate(schedule, 0.4, 0, 0) == 0.1F);
    CHECK(learning_rate(schedule, 0.4, 1, 0) == 0.2F);
    CHECK(learning_rate(schedule, 0.4, 3, 0) == 0.4F);
    CHECK(learning_rate(schedule, 0.4, 4, 0) == 0.4F);
  }
}
