#include <cmath>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

enum Output { kProbs, kRowLoss, kMeanLoss, kGradient };

// Some rows at a time, and in place, cross entropy has the same bits.
void check_parts(const KernelTable& t, std::int64_t rows, std::int64_t classes,
                 const Floats& logits, const std::vector<std::int32_t>& labels,
                 const LossTerms& terms, const std::vector<Floats>& expected) {
  const std::int64_t some = (rows + 1) / 2;
  std::int64_t next = 0;
  const Floats x(logits.size(), [&] { return logits[next++]; }), losses(rows);
  const auto same = [&](Output output, const Floats& actual) {
    CHECK(actual.first_difference(expected[output]) == -1);
  };
  const auto parts = [&](auto kernel) {
    kernel(std::int64_t{0}, some);
    if (some < rows) kernel(some, rows - some);
  };
  parts([&](std::int64_t r, std::int64_t n) {
    float* const at = x + r * classes;
    t.softmax_xent_fwd(n, classes, at, labels.data() + r, terms, at, losses + r);
  });
  same(kProbs, x);
  same(kRowLoss, losses);
  parts([&](std::int64_t r, std::int64_t n) {
    float* const at = x + r * classes;
    t.softmax_xent_bwd(n, classes, at, labels.data() + r, {rows, labels.data()}, terms, at);
  });
  same(kGradient, x);
}

std::vector<Floats> run(const KernelTable& t, std::int64_t rows, std::int64_t classes,
                        const Floats& logits, const std::vector<std::int32_t>& labels,
                        const LossTerms& terms = {}) {
  std::vector<Floats> out;
  for (const std::int64_t size : {rows * classes, rows, std::int64_t{1}, rows * classes}) {
    out.emplace_back(size);
  }
  t.softmax_xent_fwd(rows, classes, logits, labels.data(), terms, out[kProbs], out[kRowLoss]);
  t.softmax_xent_mean(rows, labels.data(), out[kRowLoss], out[kMeanLoss]);
  t.softmax_xent_bwd(rows, classes, out[kProbs], labels.data(), {rows, labels.data()}, terms,
                     out[kGradient]);
  check_parts(t, rows, classes, logits, labels, terms, out);
  return out;
}

double row_loss(const float* logits, std::int64_t classes, std::int32_t label,
                const LossTerms& terms = {}) {
  double max = -INFINITY, sum = 0, mean = 0;
  for (std::int64_t i = 0; i < classes; ++i) max = std::max<double>(max, logits[i]);
  for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - max);
  for (std::int64_t i = 0; i < classes; ++i) mean += logits[i] / static_cast<double>(classes);
  const double lse = std::log(sum) + max;
  const double first = std::log(sum) - (logits[label] - max);
  return (1.0 - terms.smoothing) * first + terms.smoothing * (lse - mean) + terms.z * lse * lse;
}

// The logarithm of the sum of all exponentials.
double log_of_sum(const float* logits, std::int64_t classes) {
  double max = -INFINITY, sum = 0;
  for (std::int64_t i = 0; i < classes; ++i) max = std::max<double>(max, logits[i]);
  for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - max);
  return std::log(sum) + max;
}

void check_size(Random& random, std::int64_t rows, std::int64_t classes, float spread,
                const LossTerms& terms = {}) {
  const Floats logits(rows * classes, [&] { return random.normal() * spread; });
  const auto labels = random.labels(rows, classes);
  const std::string what =
      "softmax rows=" + std::to_string(rows) + " classes=" + std::to_string(classes);
  const auto out = same_in_all_classes(
      what, [&](const KernelTable& t) { return run(t, rows, classes, logits, labels, terms); });
  double mean = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double loss = row_loss(logits + r * classes, classes, labels[r], terms);
    mean += loss / rows;
    check_near(out[kRowLoss][r], loss, 2e-6 * (1 + std::abs(loss)), what);
    double sum = 0;
    for (std::int64_t i = 0; i < classes; ++i) sum += out[kProbs][r * classes + i];
    // With the z-loss the probabilities have the factor 1 + 2 z lse.
    const double lse = log_of_sum(logits + r * classes, classes);
    check_near(static_cast<float>(1.0 + 2.0 * terms.z * lse), sum,
               (2e-6 + classes * 1e-9) * (1.0 + 2.0 * terms.z * std::abs(lse)), what);
  }
  check_near(out[kMeanLoss][0], mean, 2e-6 * (1 + std::abs(mean)), what);
}

constexpr LossTerms kTerms[] = {{.smoothing = 0.1F}, {.z = 1e-3F}, {.smoothing = 0.3F, .z = 0.02F}};

TEST_SUITE("gpu/canonical/loss") {
  TEST_CASE("label smoothing and z-loss have the same bits in every class, too") {
    Random random(test::seed("cross entropy terms"));
    for (const LossTerms& terms : kTerms) {
      for (int i = 0; i < 20; ++i) {
        check_size(random, random.integer(1, 40), random.integer(1, 150),
                   random.coin() ? 1.0f : 10.0f, terms);
      }
      check_size(random, 2, 16385, 3.0f, terms);
    }
  }

  TEST_CASE("cross entropy has the same bits in every class and is close to double precision") {
    Random random(test::seed("cross entropy"));
    for (int i = 0; i < 60; ++i) {
      check_size(random, random.integer(1, 40), random.integer(1, 150),
                 random.coin() ? 1.0f : 40.0f);
    }
  }

  TEST_CASE("sums over more than 16384 elements go through a second level") {
    Random random(test::seed("cross entropy long"));
    check_size(random, 2, 16384, 3.0f);
    check_size(random, 2, 16385, 3.0f);
    check_size(random, 1, 50000, 3.0f);
    check_size(random, 40000, 3, 1.0f);
  }

  TEST_CASE("a sum uses 64 lanes, folded by halves") {
    // Uniform logits give equal summands. Only the lane structure keeps small row losses beside a
    // large one: in lane 0 a 1 after 2^24 is lost, in lane 1 the 1 is kept until the lanes are
    // folded.
    const std::int64_t rows = 66;
    Floats logits(rows * 2, [] { return 0.0f; });
    std::vector<std::int32_t> labels(rows, 0);
    for (std::int64_t r = 0; r < rows; ++r) logits[2 * r] = 200.0f;  // A loss of exactly +0.
    logits[0] = -0x1p24f;                                            // A loss of 2^24.
    logits[2 * 64] = logits[2 * 65] = -2.0f;
    const auto out = run(reference(), rows, 2, logits, labels);
    const float small = out[kRowLoss][64];
    CHECK(out[kRowLoss][0] == 0x1p24f);
    CHECK(out[kRowLoss][1] == 0.0f);
    const float lane0 = 0x1p24f + small, lane1 = 0.0f + small;
    CHECK(out[kMeanLoss][0] == (lane0 + lane1) * (1.0f / 66.0f));
  }

  TEST_CASE("the gradient of cross entropy is its derivative") {
    Random random(test::seed("cross entropy gradient"));
    const std::int64_t rows = 6, classes = 11;
    const Floats logits = random.normals(rows * classes);
    const auto labels = random.labels(rows, classes);
    for (const LossTerms& terms : {LossTerms{}, kTerms[0], kTerms[1], kTerms[2]}) {
      const auto out = run(reference(), rows, classes, logits, labels, terms);
      for (std::int64_t i = 0; i < rows * classes; ++i) {
        const std::int64_t r = i / classes;
        const float at = logits[i], step = 0x1p-7f;
        const auto loss = [&] { return row_loss(logits + r * classes, classes, labels[r], terms); };
        logits[i] = at + step;
        const double high = loss();
        logits[i] = at - step;
        const double low = loss();
        logits[i] = at;
        check_near(out[kGradient][i], (high - low) / (2.0 * step) / rows, 1e-5, "gradient");
      }
    }
  }

  TEST_CASE("rows with a negative label are left out of cross entropy") {
    Random random(test::seed("ignored rows"));
    const std::int64_t rows = 37, classes = 10;
    const Floats logits = random.normals(rows * classes);
    auto labels = random.labels(rows, classes);
    std::int64_t count = 0;
    for (auto& label : labels) {
      if (random.coin()) label = -1;
      count += label >= 0 ? 1 : 0;
    }
    const auto out = same_in_all_classes(
        "ignored", [&](const KernelTable& t) { return run(t, rows, classes, logits, labels); });
    double mean = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double loss = labels[r] < 0 ? 0 : row_loss(logits + r * classes, classes, labels[r]);
      mean += loss / static_cast<double>(count);
      check_near(out[kRowLoss][r], loss, 1e-5, "row loss");
      for (std::int64_t i = 0; i < classes; ++i) {
        const double p = out[kProbs][r * classes + i] - (i == labels[r] ? 1.0 : 0.0);
        check_near(out[kGradient][r * classes + i],
                   labels[r] < 0 ? 0 : p / static_cast<double>(count), 1e-7, "gradient");
      }
    }
    check_near(out[kMeanLoss][0], mean, 1e-5, "mean loss");
    const auto none = run(reference(), rows, classes, logits, std::vector<std::int32_t>(rows, -1));
    CHECK(none[kMeanLoss][0] == 0.0f);
    CHECK(none[kGradient][0] == 0.0f);
  }

  TEST_CASE("binary cross entropy and squared error equal their formulas, and so do gradients") {
    Random random(test::seed("bce mse"));
    for (const std::int64_t n : {1, 15, 16, 17, 1000, 16385}) {
      const Floats x(n, [&] { return random.normal() * 6; });
      const Floats target(n, [&] { return random.coin() ? 1.0f : std::abs(random.normal()); });
      const auto out = same_in_all_classes("n=" + std::to_string(n), [&](const KernelTable& t) {
        std::vector<Floats> result;
        for (const std::int64_t size : {n, std::int64_t{1}, n, n, std::int64_t{1}, n}) {
          result.emplace_back(size);
        }
        t.bce_fwd(n, x, target, result[0], result[1]);
        t.bce_bwd(n, x, target, result[2]);
        t.mse_fwd(n, x, target, result[3], result[4]);
        t.mse_bwd(n, x, target, result[5]);
        return result;
      });
      double bce = 0, mse = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double v = x[i], t = target[i];
        const double loss = std::max(v, 0.0) - v * t + std::log1p(std::exp(-std::abs(v)));
        bce += loss / static_cast<double>(n);
        mse += (v - t) * (v - t) / static_cast<double>(n);
        check_near(out[0][i], loss, 1e-6 * (1 + std::abs(v * t)), "bce");
        check_near(out[2][i], (1 / (1 + std::exp(-v)) - t) / static_cast<double>(n),
                   3e-7 * (1 + t) / static_cast<double>(n), "bce gradient");
        check_near(out[3][i], (v - t) * (v - t), 1e-6 * (v * v + t * t), "mse");
        check_near(out[5][i], 2 * (v - t) / static_cast<double>(n),
                   1e-6 * (1 + std::abs(v) + t) / static_cast<double>(n), "mse gradient");
      }
      check_near(out[1][0], bce, 1e-5 * (1 + std::abs(bce)), "mean bce");
      check_near(out[4][0], mse, 1e-5 * (1 + mse), "mean mse");
    }
  }

  TEST_CASE("binary cross entropy of extreme logits") {
    const float logits[] = {INFINITY, -INFINITY, 200.0f, -200.0f, 0.0f, -0.0f};
    const Floats x(6, [p = logits]() mutable { return *p++; });
    const Floats target(6, [] { return 0.5f; });
    const auto out = same_in_all_classes("extreme", [&](const KernelTable& t) {
      std::vector<Floats> result;
      for (const std::int64_t size : {6, 1, 6}) result.emplace_back(size);
      t.bce_fwd(6, x, target, result[0], result[1]);
      t.bce_bwd(6, x, target, result[2]);
      for (Floats& f : result) {
        for (std::int64_t i = 0; i < f.size(); ++i) f[i] = std::isnan(f[i]) ? NAN : f[i];
      }
      return result;
    });
    CHECK(std::isnan(out[0][0]));  // inf - inf
    CHECK(out[0][1] == INFINITY);
    CHECK(out[0][2] == 100.0f);
    CHECK(out[0][3] == 100.0f);
    CHECK(out[0][4] == out[0][5]);
    CHECK(out[2][0] == 0.5f / 6.0f);
    CHECK(out[2][1] == -0.5f / 6.0f);
  }

  TEST_CASE("a NaN or infinite logit gives a NaN loss in every class") {
    for (const float bad : {std::nanf(""), INFINITY}) {
      for (std::int64_t at = 0; at < 20; at += 3) {
        Floats logits(20, [] { return 1.0f; });
        logits[at] = bad;
        for (const KernelTable* t : vector_classes()) {
          CHECK(std::isnan(run(*t, 1, 20, logits, {2})[kMeanLoss][0]));
        }
        CHECK(std::isnan(run(reference(), 1, 20, logits, {2})[kMeanLoss][0]));
      }
    }
  }

  TEST_CASE("logits far below the maximum get probability zero, also minus infinity") {
    Floats logits(3, [] { return 0.0f; });
    logits[1] = -200.0f;
    logits[2] = -INFINITY;
    const auto out = same_in_all_classes(
        "far logits", [&](const KernelTable& t) { return run(t, 1, 3, logits, {0}); });
    CHECK(out[kProbs][0] == 1.0f);
    CHECK(out[kProbs][1] == 0.0f);
    CHECK(out[kProbs][2] == 0.0f);
    CHECK(out[kMeanLoss][0] == 0.0f);
  }
}

}  // namespace
}  // namespace es::gpu::testing
