#include <cmath>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

enum Output { kY, kGradient };

std::vector<Floats> run(const KernelTable& t, std::int64_t rows, std::int64_t c, const Floats& x,
                        const Floats& dy) {
  std::vector<Floats> out;
  out.emplace_back(rows * c);
  out.emplace_back(rows * c);
  t.softmax_fwd(rows, c, x, out[kY]);
  t.softmax_bwd(rows, c, out[kY], dy, out[kGradient]);
  return out;
}

void check_row_against_double(std::int64_t c, const float* x, const float* dy, const float* y,
                              const float* dx, const std::string& what) {
  double max = -INFINITY, sum = 0, dot = 0;
  for (std::int64_t i = 0; i < c; ++i) max = std::max<double>(max, x[i]);
  for (std::int64_t i = 0; i < c; ++i) sum += std::exp(x[i] - max);
  const auto exact = [&](std::int64_t i) { return std::exp(x[i] - max) / sum; };
  for (std::int64_t i = 0; i < c; ++i) dot += exact(i) * dy[i];
  for (std::int64_t i = 0; i < c; ++i) {
    // The difference to the maximum is rounded before EXP increases the error.
    const double bound = (1e-6 + 0x1p-23 * (max - x[i])) * exact(i) + 1e-37;
    check_near(y[i], exact(i), bound, what);
    check_near(dx[i], exact(i) * (dy[i] - dot), 4 * bound * (1 + std::abs(dy[i])),
               what + " gradient");
  }
}

void check_size(Random& random, std::int64_t rows, std::int64_t c, float spread) {
  const Floats x(rows * c, [&] { return random.normal() * spread; });
  const Floats dy = random.normals(rows * c);
  const std::string what = "softmax rows=" + std::to_string(rows) + " c=" + std::to_string(c);
  const auto out =
      same_in_all_classes(what, [&](const KernelTable& t) { return run(t, rows, c, x, dy); });
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = r * c;
    check_row_against_double(c, x + at, dy + at, out[kY] + at, out[kGradient] + at, what);
  }
}

TEST_SUITE("gpu/canonical/softmax") {
  TEST_CASE("softmax has the same bits in every class and is close to double precision") {
    Random random(test::seed("softmax"));
    for (int i = 0; i < 60; ++i) {
      check_size(random, random.integer(1, 20), random.integer(1, 200),
                 random.coin() ? 1.0f : 20.0f);
    }
    check_size(random, 2, 16384, 3.0f);
    check_size(random, 2, 16385, 3.0f);
    check_size(random, 1, 40000, 3.0f);
  }

  TEST_CASE("results may replace their inputs") {
    Random random(test::seed("softmax in place"));
    const Floats x = random.normals(7 * 45), dy = random.normals(7 * 45);
    const auto expected = run(reference(), 7, 45, x, dy);
    same_in_all_classes("in place", [&](const KernelTable& t) {
      std::vector<Floats> out;
      for (const Floats* from : {&x, &dy}) {
        std::int64_t i = 0;
        out.emplace_back(from->size(), [&] { return (*from)[i++]; });
      }
      t.softmax_fwd(7, 45, out[0], out[0]);
      t.softmax_bwd(7, 45, out[0], out[1], out[1]);
      CHECK(out[0].first_difference(expected[kY]) == -1);
      CHECK(out[1].first_difference(expected[kGradient]) == -1);
      return out;
    });
  }

  TEST_CASE("minus infinity gets probability zero, and a row of minus infinities gives zeros") {
    for (const std::int64_t c : {1, 15, 49, 64, 100}) {
      for (const bool all : {false, true}) {
        Floats x(c, [] { return -INFINITY; });
        if (!all) x[c / 2] = 3.0f;
        const Floats dy(c, [] { return 2.0f; });
        const auto out = same_in_all_classes(
            "minus infinity", [&](const KernelTable& t) { return run(t, 1, c, x, dy); });
        for (std::int64_t i = 0; i < c; ++i) {
          CHECK(out[kY][i] == (!all && i == c / 2 ? 1.0f : 0.0f));
          CHECK(out[kGradient][i] == 0.0f);
        }
      }
    }
  }

  TEST_CASE(
      "a NaN or plus infinity makes NaN of the whole row in every class, and of no other row") {
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    for (const KernelTable* t : tables) {
      for (const float bad : {std::nanf(""), INFINITY}) {
        for (const float rest : {1.0f, -INFINITY}) {
          for (std::int64_t at = 0; at < 20; ++at) {
            Floats x(60, [] { return 1.0f; }), dy(60, [] { return 1.0f; });
            for (std::int64_t i = 20; i < 40; ++i) x[i] = rest;
            x[20 + at] = bad;
            const auto out = run(*t, 3, 20, x, dy);
            for (std::int64_t i = 0; i < 60; ++i) {
              // exp(finite - inf) is 0, but 0 * (1 / NaN) is NaN again.
              CHECK(std::isnan(out[kY][i]) == (i / 20 == 1));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
