#include <cmath>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

enum Output { kProbs, kRowLoss, kMeanLoss, kGradient };

std::vector<Floats> run(const KernelTable& t, std::int64_t rows, std::int64_t classes,
                        const Floats& logits, const std::vector<std::int32_t>& labels) {
  std::vector<Floats> out;
  for (const std::int64_t size : {rows * classes, rows, std::int64_t{1}, rows * classes}) {
    out.emplace_back(size);
  }
  t.softmax_xent_fwd(rows, classes, logits, labels.data(), out[kProbs], out[kRowLoss],
                     out[kMeanLoss]);
  t.softmax_xent_bwd(rows, classes, out[kProbs], labels.data(), out[kGradient]);
  return out;
}

double row_loss(const float* logits, std::int64_t classes, std::int32_t label) {
  double max = -INFINITY, sum = 0;
  for (std::int64_t i = 0; i < classes; ++i) max = std::max<double>(max, logits[i]);
  for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - max);
  return std::log(sum) - (logits[label] - max);
}

void check_size(Random& random, std::int64_t rows, std::int64_t classes, float spread) {
  const Floats logits(rows * classes, [&] { return random.normal() * spread; });
  const auto labels = random.labels(rows, classes);
  const std::string what =
      "softmax rows=" + std::to_string(rows) + " classes=" + std::to_string(classes);
  const auto out = same_in_all_classes(
      what, [&](const KernelTable& t) { return run(t, rows, classes, logits, labels); });
  double mean = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double loss = row_loss(logits + r * classes, classes, labels[r]);
    mean += loss / rows;
    check_near(out[kRowLoss][r], loss, 2e-6 * (1 + std::abs(loss)), what);
    double sum = 0;
    for (std::int64_t i = 0; i < classes; ++i) sum += out[kProbs][r * classes + i];
    check_near(1.0f, sum, 2e-6 + classes * 1e-9, what);
  }
  check_near(out[kMeanLoss][0], mean, 2e-6 * (1 + std::abs(mean)), what);
}

TEST_SUITE("gpu/canonical/loss") {
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
    // Uniform logits give equal summands; only the lane structure keeps small row losses beside a
    // large one. Lane 0: 2^24 then 1 is lost; lane 1: 1 survives until the lanes are folded.
    const std::int64_t rows = 66;
    Floats logits(rows * 2, [] { return 0.0f; });
    std::vector<std::int32_t> labels(rows, 0);
    for (std::int64_t r = 0; r < rows; ++r) logits[2 * r] = 200.0f;  // a loss of exactly +0
    logits[0] = -0x1p24f;                                            // a loss of 2^24
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
    const auto out = run(reference(), rows, classes, logits, labels);
    for (std::int64_t i = 0; i < rows * classes; ++i) {
      const std::int64_t r = i / classes;
      const float at = logits[i], step = 0x1p-7f;
      const auto loss = [&] { return row_loss(logits + r * classes, classes, labels[r]); };
      logits[i] = at + step;
      const double high = loss();
      logits[i] = at - step;
      const double low = loss();
      logits[i] = at;
      check_near(out[kGradient][i], (high - low) / (2.0 * step) / rows, 1e-5, "gradient");
    }
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
