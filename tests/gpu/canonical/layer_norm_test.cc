#include <cmath>

#include "gpu/canonical/phases.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

constexpr float kEpsilon = 1e-5f;
enum Output { kY, kMean, kIstd, kDx, kDgamma, kDbeta };

struct Case {
  Case(Random& random, std::int64_t r, std::int64_t columns)
      : rows(r),
        c(columns),
        x(r * columns, [&random] { return 3 + 2 * random.normal(); }),
        dy(random.normals(r * columns)),
        gamma(random.normals(columns)),
        beta(random.normals(columns)) {}

  std::vector<Floats> run(const KernelTable& t, const TestWorkers& workers = TestWorkers()) const {
    std::vector<Floats> out;
    for (const std::int64_t size : {rows * c, rows, rows, rows * c, c, c}) out.emplace_back(size);
    const Floats ws = workspace(t.layer_norm_bwd_workspace_floats(rows, c));
    t.layer_norm_fwd(rows, c, x, gamma, beta, kEpsilon, out[kY], out[kMean], out[kIstd]);
    layer_norm_bwd(t, rows, c, x, dy, out[kMean], out[kIstd], gamma, out[kDx], out[kDgamma],
                   out[kDbeta], ws, workers);
    return out;
  }

  std::int64_t rows, c;
  Floats x, dy, gamma, beta;
};

// The sum of y * dy of one row, whose derivatives are the gradients.
double objective(const Case& t, std::int64_t r, const std::vector<double>& x) {
  double mean = 0, var = 0, sum = 0;
  for (const double v : x) mean += v / static_cast<double>(t.c);
  for (const double v : x) var += (v - mean) * (v - mean) / static_cast<double>(t.c);
  for (std::int64_t i = 0; i < t.c; ++i) {
    const double h = (x[i] - mean) / std::sqrt(var + kEpsilon);
    sum += (h * t.gamma[i] + t.beta[i]) * t.dy[r * t.c + i];
  }
  return sum;
}

TEST_SUITE("gpu/canonical/layer_norm") {
  TEST_CASE("layer norm has the same bits in every class for every width") {
    Random random(test::seed("layer norm"));
    for (std::int64_t c = 1; c < 140; ++c) {
      const Case t(random, random.integer(1, 140), c);
      same_in_all_classes("c=" + std::to_string(c), [&](const KernelTable& k) { return t.run(k); });
    }
    for (const std::int64_t c : {768, 16384, 16385, 40000}) {
      const Case t(random, 3, c);
      same_in_all_classes("c=" + std::to_string(c), [&](const KernelTable& k) { return t.run(k); });
    }
  }

  TEST_CASE("the backward pass has the same bits with any division of its rows") {
    Random random(test::seed("layer norm shared"));
    for (const std::int64_t rows : {1, 64, 65, 700, 4200}) {
      const Case t(random, rows, random.integer(1, 200));
      same_however_shared(
          "rows=" + std::to_string(rows) + " c=" + std::to_string(t.c), random,
          [&](const KernelTable& k, const TestWorkers& workers) { return t.run(k, workers); });
    }
  }

  TEST_CASE("layer norm equals its formula and its gradients are derivatives") {
    Random random(test::seed("layer norm gradient"));
    const Case t(random, 70, 9);
    const auto out = t.run(reference());
    std::vector<double> dgamma(t.c), dbeta(t.c);
    for (std::int64_t r = 0; r < t.rows; ++r) {
      std::vector<double> x(t.x + r * t.c, t.x + (r + 1) * t.c);
      double mean = 0, var = 0;
      for (const double v : x) mean += v / 9;
      for (const double v : x) var += (v - mean) * (v - mean) / 9;
      check_near(out[kMean][r], mean, 1e-6 * (1 + std::abs(mean)), "mean");
      for (std::int64_t i = 0; i < t.c; ++i) {
        const std::int64_t at = r * t.c + i;
        const double h = (x[i] - mean) / std::sqrt(var + kEpsilon);
        check_near(out[kY][at], h * t.gamma[i] + t.beta[i], 2e-5, "y");
        dgamma[i] += t.dy[at] * h;
        dbeta[i] += t.dy[at];
        const double value = x[i], step = 1e-5;
        x[i] = value + step;
        const double high = objective(t, r, x);
        x[i] = value - step;
        const double low = objective(t, r, x);
        x[i] = value;
        check_near(out[kDx][at], (high - low) / (2 * step), 1e-4, "dx");
      }
    }
    for (std::int64_t i = 0; i < t.c; ++i) {
      check_near(out[kDgamma][i], dgamma[i], 1e-4, "dgamma");
      check_near(out[kDbeta][i], dbeta[i], 1e-4, "dbeta");
    }
  }

  TEST_CASE("dx may be dy") {
    Random random(test::seed("layer norm in place"));
    const Case t(random, 66, 37);
    const auto apart = t.run(reference());
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    for (const KernelTable* k : tables) {
      Floats dx(t.dy.size(), [p = t.dy.data()]() mutable { return *p++; });
      Floats dgamma(t.c), dbeta(t.c);
      const Floats ws = workspace(k->layer_norm_bwd_workspace_floats(t.rows, t.c));
      layer_norm_bwd(*k, t.rows, t.c, t.x, dx, apart[kMean], apart[kIstd], t.gamma, dx, dgamma,
                     dbeta, ws, Alone());
      CHECK(dx.first_difference(apart[kDx]) == -1);
      CHECK(dgamma.first_difference(apart[kDgamma]) == -1);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
