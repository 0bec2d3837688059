#include <cmath>

#include "gpu/canonical/phases.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

std::string text(const char* what, std::int64_t rows, std::int64_t c) {
  return std::string(what) + " rows=" + std::to_string(rows) + " c=" + std::to_string(c);
}

// Sizes around the limits of the recursion of rule G3: one run, two levels, three levels, and last
// runs of odd lengths.
constexpr std::int64_t kRowCounts[] = {1, 2, 63, 64, 65, 107, 130, 1003, 4096, 4097, 4200};

// Rows drift by 10 % of the offset, so that the means of runs differ from the mean of all rows.
struct BnData {
  BnData(Random& random, std::int64_t rows, std::int64_t c, float offset)
      : rows(rows),
        c(c),
        x(rows * c,
          [&, i = 0.0f]() mutable {
            i += 1.0f;
            return random.normal() + offset + 0.1f * offset * i / static_cast<float>(rows * c);
          }),
        dy(random.normals(rows * c)),
        gamma(random.normals(c)),
        beta(random.normals(c)),
        running_mean(random.normals(c)),
        running_var(c, [&] { return 0.5f + std::abs(random.normal()); }),
        act(static_cast<Activation>(random.integer(0, 2))) {}
  std::int64_t rows, c;
  Floats x, dy, gamma, beta, running_mean, running_var;
  Activation act;
};

constexpr float kEps = 1e-5f, kMomentum = 0.1f;

enum Output { kY, kMean, kIstd, kNextMean, kNextVar, kDx, kDgamma, kDbeta, kEvalY };

std::vector<Floats> run(const KernelTable& table, const BnData& d,
                        const TestWorkers& workers = TestWorkers()) {
  std::vector<Floats> out;
  const std::int64_t sizes[] = {d.rows * d.c, d.c, d.c, d.c,         d.c,
                                d.rows * d.c, d.c, d.c, d.rows * d.c};
  for (const std::int64_t size : sizes) out.emplace_back(size);
  Floats ws = workspace(table.bn_workspace_floats(d.rows, d.c));
  bn_train_fwd(table,
               {.rows = d.rows,
                .c = d.c,
                .x = d.x,
                .gamma = d.gamma,
                .beta = d.beta,
                .eps = kEps,
                .momentum = kMomentum,
                .running_mean = d.running_mean,
                .running_var = d.running_var,
                .act = d.act,
                .y = out[kY],
                .mean = out[kMean],
                .istd = out[kIstd],
                .next_mean = out[kNextMean],
                .next_var = out[kNextVar],
                .ws = ws},
               workers);
  // dx is written over dy, which the contract allows.
  for (std::int64_t i = 0; i < d.dy.size(); ++i) out[kDx][i] = d.dy[i];
  bn_bwd(table,
         {.rows = d.rows,
          .c = d.c,
          .x = d.x,
          .dy = out[kDx],
          .mean = out[kMean],
          .istd = out[kIstd],
          .gamma = d.gamma,
          .beta = d.beta,
          .act = d.act,
          .dx = out[kDx],
          .dgamma = out[kDgamma],
          .dbeta = out[kDbeta],
          .ws = ws},
         workers);
  bn_eval(table, d.rows, d.c, d.x, d.gamma, d.beta, kEps, d.running_mean, d.running_var, d.act,
          out[kEvalY], ws, workers);
  return out;
}

// The factor of the gradient and of the value after an activation of value y.
double slope(Activation act, double y) {
  if (act == Activation::kNone || y > 0) return 1;
  return act == Activation::kRelu ? 0 : static_cast<double>(kLeakySlope);
}

struct Moments {
  double mean, var;
};
Moments moments(const BnData& d, std::int64_t c) {
  double sum = 0, squares = 0;
  for (std::int64_t r = 0; r < d.rows; ++r) sum += d.x[r * d.c + c];
  const double mean = sum / d.rows;
  for (std::int64_t r = 0; r < d.rows; ++r) {
    const double e = d.x[r * d.c + c] - mean;
    squares += e * e;
  }
  return {mean, squares / d.rows};
}

// Batch norm of column c in double precision, whose finite differences give the gradients. The
// activation mask is that of the kernel, because the loss is not differentiable where the mask
// changes.
double column_loss(const BnData& d, const std::vector<Floats>& out, std::int64_t c,
                   const std::vector<double>& x, double gamma, double beta) {
  double mean = 0, var = 0, loss = 0;
  for (const double v : x) mean += v / d.rows;
  for (const double v : x) var += (v - mean) * (v - mean) / d.rows;
  for (std::int64_t r = 0; r < d.rows; ++r) {
    const std::int64_t i = r * d.c + c;
    loss +=
        slope(d.act, out[kY][i]) * d.dy[i] * ((x[r] - mean) / std::sqrt(var + kEps) * gamma + beta);
  }
  return loss;
}

void check_gradients(const BnData& d, const std::vector<Floats>& out, std::int64_t c) {
  std::vector<double> x(d.rows);
  for (std::int64_t r = 0; r < d.rows; ++r) x[r] = d.x[r * d.c + c];
  const double step = 1e-5, gamma = d.gamma[c], beta = d.beta[c];
  const auto loss = [&](double g, double b) { return column_loss(d, out, c, x, g, b); };
  const double scale = std::sqrt(static_cast<double>(d.rows)) + 4;
  check_near(out[kDgamma][c], (loss(gamma + step, beta) - loss(gamma - step, beta)) / (2 * step),
             2e-5 * scale, "dgamma");
  check_near(out[kDbeta][c], (loss(gamma, beta + step) - loss(gamma, beta - step)) / (2 * step),
             2e-5 * scale, "dbeta");
  for (std::int64_t r = 0; r < d.rows; r += 1 + d.rows / 7) {
    const double at = x[r];
    x[r] = at + step;
    const double high = loss(gamma, beta);
    x[r] = at - step;
    const double low = loss(gamma, beta);
    x[r] = at;
    check_near(out[kDx][r * d.c + c], (high - low) / (2 * step), 5e-5 * (1 + std::abs(gamma)),
               "dx");
  }
}

void check_forward(const BnData& d, const std::vector<Floats>& out, std::int64_t c, double offset) {
  const Moments m = moments(d, c);
  const double scale = std::abs(offset) + 3;
  check_near(out[kMean][c], m.mean, 1e-6 * scale, "mean");
  check_near(1 / std::pow(out[kIstd][c], 2), m.var + kEps, 2e-6 * scale * (m.var + kEps), "var");
  const double unbiased = d.rows == 1 ? m.var : m.var * d.rows / (d.rows - 1);
  check_near(out[kNextMean][c], 0.1 * m.mean + 0.9 * d.running_mean[c], 1e-6 * scale, "next mean");
  check_near(out[kNextVar][c], 0.1 * unbiased + 0.9 * d.running_var[c], 2e-6 * scale, "next var");
  for (std::int64_t i = c; i < d.rows * d.c; i += d.c) {
    const double train = (d.x[i] - m.mean) / std::sqrt(m.var + kEps) * d.gamma[c] + d.beta[c];
    const double eval =
        (d.x[i] - d.running_mean[c]) / std::sqrt(d.running_var[c] + kEps) * d.gamma[c] + d.beta[c];
    check_near(out[kY][i], train * slope(d.act, train), 1e-5 * scale, "y");
    check_near(out[kEvalY][i], eval * slope(d.act, eval), 1e-5 * scale, "eval y");
  }
}

TEST_SUITE("gpu/canonical/norm") {
  TEST_CASE(
      "column sums have the same bits in every class, with any division of runs and columns") {
    Random random(test::seed("colsum"));
    for (const std::int64_t rows : kRowCounts) {
      const std::int64_t cols = random.integer(1, 300);
      const Floats x = random.normals(rows * cols);
      const auto sums = [&](const KernelTable& t, const TestWorkers& workers) {
        std::vector<Floats> result;
        Floats ws = workspace(t.colsum_workspace_floats(rows, cols));
        colsum(t, rows, cols, x, result.emplace_back(cols), ws, workers);
        return result;
      };
      const auto out = same_however_shared(text("colsum", rows, cols), random, sums);
      for (std::int64_t c = 0; c < cols; ++c) {
        double sum = 0, magnitude = 0;
        for (std::int64_t r = 0; r < rows; ++r) {
          sum += x[r * cols + c];
          magnitude += std::abs(x[r * cols + c]);
        }
        check_near(out[0][c], sum, magnitude * 3 * 64 * 0x1p-24, text("colsum", rows, cols));
      }
    }
  }

  TEST_CASE("a column sum is one chain for each run of 64 rows") {
    // 2^24 absorbs a 1 that follows it in its run. The next run is added as a whole.
    Floats x(66, [] { return 0.0f; });
    x[0] = 0x1p24f;
    x[1] = 1.0f;
    x[64] = x[65] = 1.0f;
    Floats out(1), ws = workspace(reference().colsum_workspace_floats(66, 1));
    colsum(reference(), 66, 1, x, out, ws, Alone());
    CHECK(out[0] == 0x1p24f + 2);
  }

  TEST_CASE("batch norm has the same bits in every class, with any division of the work") {
    Random random(test::seed("batch norm shared"));
    for (const std::int64_t rows : kRowCounts) {
      const std::int64_t c = random.integer(1, 300);
      const BnData d(random, rows, c, 3.0f);
      same_however_shared(
          text("batch norm", rows, c), random,
          [&](const KernelTable& t, const TestWorkers& workers) { return run(t, d, workers); });
    }
  }

  TEST_CASE("batch norm has the same bits in every class and is close to double precision") {
    Random random(test::seed("batch norm"));
    for (const std::int64_t rows : kRowCounts) {
      const std::int64_t c = random.integer(1, 75);
      const float offset = random.coin() ? 0.0f : 30.0f;
      const BnData d(random, rows, c, offset);
      const auto out = same_in_all_classes(text("batch norm", rows, c),
                                           [&](const KernelTable& t) { return run(t, d); });
      if (rows < 3) continue;  // The gradient of two samples consists of cancellation.
      for (std::int64_t j = 0; j < c; ++j) check_forward(d, out, j, offset);
    }
  }

  TEST_CASE("the backward pass of batch norm is the derivative of the forward pass") {
    Random random(test::seed("batch norm gradient"));
    for (const std::int64_t rows : {5, 40, 200}) {
      for (int i = 0; i < 4; ++i) {
        const BnData d(random, rows, random.integer(1, 9), 0.0f);
        const auto out = run(reference(), d);
        for (std::int64_t j = 0; j < d.c; ++j) check_gradients(d, out, j);
      }
    }
  }

  TEST_CASE("one row has variance zero, which enters the running variance unchanged") {
    Random random(test::seed("one row"));
    BnData d(random, 1, 3, 0.0f);
    d.act = Activation::kNone;
    const auto out = run(reference(), d);
    for (std::int64_t j = 0; j < 3; ++j) {
      CHECK(out[kMean][j] == d.x[j]);
      CHECK(out[kY][j] == d.beta[j]);
      check_near(out[kNextVar][j], 0.9 * d.running_var[j], 1e-6, "next var");
      CHECK(out[kDx][j] == 0.0f);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
