#include <utility>

#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

constexpr std::int64_t kSizes[] = {1, 2, 4, 5, 63, 64, 65, 255, 1024, 4099, 16384, 16385, 50001};

AdamStep random_step(Random& random) {
  AdamStep s{.lr_over_bc1 = 0.01f, .rsqrt_bc2 = 1.5f};
  if (random.coin()) s.weight_decay = 0.01f;
  if (random.coin()) s.decay = 0.99f;
  return s;
}

TEST_SUITE("gpu/cuda/update") {
  TEST_CASE("SGD has the bits of the scalar class, with and without momentum") {
    Random random(test::seed("device sgd"));
    for (const std::int64_t n : kSizes) {
      for (const bool nesterov : {false, true}) {
        const Floats g = mixed(random, n), p = mixed(random, n), v = mixed(random, n);
        std::vector<Floats> out, on_device;
        for (std::vector<Floats>* o : {&out, &on_device}) {
          for (const Floats* f : {&p, &v, &p}) o->push_back(copy(*f));
        }
        reference().sgd(n, g, 0.25f, 0.1f, 0.9f, 1e-4f, nesterov, out[0], out[1]);
        reference().sgd(n, g, 0.25f, 0.1f, 0.0f, 1e-4f, false, out[2], nullptr);
        device().sgd(kStream, n, g, 0.25f, 0.1f, 0.9f, 1e-4f, nesterov, on_device[0], on_device[1],
                     {});
        device().sgd(kStream, n, g, 0.25f, 0.1f, 0.0f, 1e-4f, false, on_device[2], nullptr, {});
        check_same(shaped("sgd", n, 1), out, on_device);
      }
    }
  }

  TEST_CASE("Adam has the bits of the scalar class, at any alignment") {
    Random random(test::seed("device adam"));
    for (const std::int64_t n : kSizes) {
      const std::int64_t skipped = random.integer(0, std::min<std::int64_t>(3, n - 1));
      const Floats g = mixed(random, n), p = mixed(random, n), m = mixed(random, n);
      const Floats v(n, [&] { return std::abs(random.normal()); });
      const AdamStep step = random_step(random);
      std::vector<Floats> out, on_device;
      for (std::vector<Floats>* o : {&out, &on_device}) {
        for (const Floats* f : {&p, &m, &v}) o->push_back(copy(*f));
      }
      reference().adam(n - skipped, g + skipped, 0.5f, step, out[0] + skipped, out[1] + skipped,
                       out[2] + skipped);
      device().adam(kStream, n - skipped, g + skipped, 0.5f, step, on_device[0] + skipped,
                    on_device[1] + skipped, on_device[2] + skipped, {});
      check_same(shaped("adam", n, 1), out, on_device);
    }
  }

  TEST_CASE("an update notices a sum and a result that is not finite, at any position") {
    Random random(test::seed("device update flags"));
    for (const std::int64_t n : kSizes) {
      std::vector<Floats> arrays;  // sum, parameter, moments
      for (int i = 0; i < 4; ++i)
        arrays.emplace_back(n, [&] { return std::abs(random.normal()) + 0.1f; });
      // Adam, SGD with and without momentum: by the number of moments.
      for (const std::size_t moments : {2U, 1U, 0U}) {
        const auto found = [&] {
          Numbers<std::int32_t> words(2, 0);
          const cuda::UpdateFlags flags{&words[0], &words[1]};
          const Floats p = copy(arrays[1]), m = copy(arrays[2]), v = copy(arrays[3]);
          if (moments == 2)
            device().adam(kStream, n, arrays[0], 0.5f, random_step(random), p, m, v, flags);
          else
            device().sgd(kStream, n, arrays[0], 0.5f, 0.1f, 0.9f, 1e-4f, false, p,
                         moments == 1 ? m.data() : nullptr, flags);
          finish();
          return std::pair(words[0], words[1]);
        };
        INFO(n, " elements, ", moments, " moments");
        CHECK(found() == std::pair(0, 0));
        for (std::size_t array = 0; array < 2 + moments; ++array) {
          float& element = arrays[array][random.integer(0, n - 1)];
          const float good = std::exchange(element, random.coin() ? NAN : INFINITY);
          CHECK(found() == std::pair(array == 0 ? 1 : 0, 1));
          element = good;
        }
      }
    }
  }

  TEST_CASE("the sum of squares has the bits of the scalar class") {
    Random random(test::seed("device sum of squares"));
    const auto check = [](const Floats& x) {
      const std::int64_t n = x.size();
      auto out = outputs({1}), on_device = outputs({1});
      out[0][0] = reference().sum_of_squares(n, x);
      const Floats ws = workspace(device().sum_of_squares_workspace_floats(n));
      device().sum_of_squares(kStream, n, x, on_device[0], ws);
      check_same(shaped("sum of squares", n, 1), out, on_device);
    };
    // The sum of many numbers rounds away most of what another rounding of a product changes. Three
    // numbers in one lane show it.
    for (int i = 0; i < 100; ++i)
      check(Floats(130, [&, at = 0]() mutable { return at++ % 64 == 0 ? random.normal() : 0.0f; }));
    for (const std::int64_t n : {1, 63, 65, 1000, 16384, 16385, 100000, 1048576, 1048577, 1130000})
      check(mixed(random, n));
  }

  TEST_CASE("one infinite or NaN element is found at any position, and a set flag stays set") {
    Random random(test::seed("device find"));
    for (const std::int64_t n : kSizes) {
      const Floats x = mixed(random, n);
      Numbers<std::int32_t> found(1, 0);
      const auto find = [&] {
        const cuda::FiniteCheck check{x, n, found.data()};
        device().find_non_finite(kStream, &check, 1);
        finish();
        return found[0];
      };
      CHECK(find() == 0);
      for (const float bad : {NAN, INFINITY, -INFINITY}) {
        const std::int64_t at = random.integer(0, n - 1);
        const float good = x[at];
        x[at] = bad;
        found[0] = 0;
        CHECK(find() == 1);
        x[at] = good;
        CHECK(find() == 1);
      }
    }
  }

  TEST_CASE("runs that are searched together are distinguished") {
    Random random(test::seed("device find runs"));
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<Floats> runs;
      std::vector<cuda::FiniteCheck> checks;
      Numbers<std::int32_t> found(cuda::kFiniteChecksMax, 0), expected = found;
      for (std::size_t i = 0; i < found.size(); ++i) {
        runs.push_back(mixed(random, random.integer(1, 5000)));
        if (random.coin()) runs[i][random.integer(0, runs[i].size() - 1)] = NAN, expected[i] = 1;
        checks.push_back({runs[i], runs[i].size(), &found[i]});
      }
      device().find_non_finite(kStream, checks.data(), std::ssize(checks));
      finish();
      CHECK(found == expected);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
