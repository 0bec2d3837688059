#include <cstring>

#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

// One row, one run, runs of different lengths, and more than 64 and more than 4,096 runs, which
// give three and four levels.
constexpr std::int64_t kRowCounts[] = {1,    2,    63,   64,   65,   127,   129,
                                       1000, 4096, 4097, 4200, 8300, 262220};

std::int64_t columns(Random& random, std::int64_t rows) {
  if (rows > 100000) return random.integer(1, 2);
  const std::int64_t most = rows > 4000 ? 8 : 130;
  return random.coin() ? 4 * random.integer(1, most / 4) : random.integer(1, most);
}

Activation activation(Random& random) {
  constexpr Activation kAll[] = {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu};
  return kAll[random.integer(0, 2)];
}

struct BnData {
  using Fill = Floats (*)(Random&, std::int64_t);
  BnData(Random& random, std::int64_t n, std::int64_t channels, Fill fill = mixed)
      : rows(n),
        c(channels),
        act(activation(random)),
        x(fill(random, n * channels)),
        dy(fill(random, n * channels)),
        gamma(random.normals(channels)),
        beta(random.normals(channels)),
        running_mean(random.normals(channels)),
        running_var(channels, [&] { return std::abs(random.normal()); }) {}

  // y, mean, istd, next mean, next variance, evaluation's y, dx, dgamma, dbeta.
  std::vector<Floats> out() const {
    return outputs({rows * c, c, c, c, c, rows * c, rows * c, c, c});
  }
  BnForward forward(const std::vector<Floats>& out, float* ws) const {
    BnForward bn{.rows = rows, .c = c, .x = x, .gamma = gamma, .beta = beta};
    bn.running_mean = running_mean;
    bn.running_var = running_var;
    bn.act = act;
    bn.y = out[0];
    bn.mean = out[1];
    bn.istd = out[2];
    bn.next_mean = out[3];
    bn.next_var = out[4];
    bn.ws = ws;
    return bn;
  }
  BnBackward backward(const std::vector<Floats>& out, const float* gradient, float* dx,
                      float* ws) const {
    BnBackward bn{.rows = rows, .c = c, .x = x, .dy = gradient, .mean = out[1], .istd = out[2]};
    bn.gamma = gamma;
    bn.beta = beta;
    bn.act = act;
    bn.dx = dx;
    bn.dgamma = out[7];
    bn.dbeta = out[8];
    bn.ws = ws;
    return bn;
  }

  std::int64_t rows, c;
  Activation act;
  Floats x, dy, gamma, beta, running_mean, running_var;
};

std::vector<Floats> expected(const BnData& d) {
  const KernelTable& t = reference();
  std::vector<Floats> out = d.out();
  const Floats ws = workspace(t.bn_workspace_floats(d.rows, d.c));
  bn_train_fwd(t, d.forward(out, ws), Alone());
  bn_eval(t, d.rows, d.c, d.x, d.gamma, d.beta, 1e-5f, d.running_mean, d.running_var, d.act, out[5],
          ws, Alone());
  bn_bwd(t, d.backward(out, d.dy, out[6], ws), Alone());
  return out;
}

// In place: dx is written over dy.
std::vector<Floats> actual(const BnData& d, bool in_place) {
  std::vector<Floats> out = d.out();
  const Floats ws = workspace(device().bn_workspace_floats(d.rows, d.c));
  device().bn_train_fwd(kStream, d.forward(out, ws));
  device().bn_eval(kStream, d.rows, d.c, d.x, d.gamma, d.beta, 1e-5f, d.running_mean, d.running_var,
                   d.act, out[5], ws);
  if (in_place) std::memcpy(out[6], d.dy, static_cast<std::size_t>(d.rows * d.c) * sizeof(float));
  device().bn_bwd(kStream, d.backward(out, in_place ? out[6] : d.dy, out[6], ws));
  return out;
}

TEST_SUITE("gpu/cuda/norm") {
  TEST_CASE("column sums have the bits of the scalar class") {
    Random random(test::seed("device colsum"));
    for (const std::int64_t rows : kRowCounts) {
      const std::int64_t cols = columns(random, rows);
      const Floats x = mixed(random, rows * cols);
      auto out = outputs({cols}), on_device = outputs({cols});
      const Floats ws = workspace(reference().colsum_workspace_floats(rows, cols));
      colsum(reference(), rows, cols, x, out[0], ws, Alone());
      const Floats device_ws = workspace(device().colsum_workspace_floats(rows, cols));
      device().colsum(kStream, rows, cols, x, on_device[0], device_ws);
      check_same(shaped("colsum", rows, cols), out, on_device);
    }
  }

  TEST_CASE("batch norm has the bits of the scalar class, trained, evaluated and backwards") {
    Random random(test::seed("device batch norm"));
    for (const std::int64_t rows : kRowCounts) {
      const BnData d(random, rows, columns(random, rows));
      check_same(shaped("batch norm", rows, d.c), expected(d), actual(d, random.coin()));
    }
  }

  TEST_CASE("values that are not finite are in the same elements as with the scalar class") {
    Random random(test::seed("device batch norm special"));
    for (int trial = 0; trial < 60; ++trial) {
      const std::int64_t rows = random.integer(1, 130);
      BnData d(random, rows, columns(random, rows), any_floats);
      if (random.coin()) d.running_var[0] = -1.0f;
      check_same(shaped("batch norm", rows, d.c), expected(d), actual(d, random.coin()));
    }
  }

  TEST_CASE("a thread with several rows of a large matrix computes all of them") {
    Random random(test::seed("device batch norm large"));
    const BnData d(random, 4099, 133);
    check_same("batch norm 4099 x 133", expected(d), actual(d, true));
  }
}

}  // namespace
}  // namespace es::gpu::testing
