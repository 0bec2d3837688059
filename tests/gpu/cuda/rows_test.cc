// Layer norm, softmax and losses: the operators along a row.
#include <cstring>

#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

struct Size {
  std::int64_t rows, c;
};
// One element; one lane more or less than 64; more than a chunk of 16,384; more than 64 rows and 64
// runs.
constexpr Size kSizes[] = {{1, 1},    {3, 2},    {1, 63},    {65, 64},   {9, 65},     {70, 33},
                           {2, 1000}, {8, 1024}, {5, 16384}, {2, 16385}, {1, 33000},  {3, 49},
                           {129, 12}, {4100, 4}, {4161, 3},  {17, 768},  {1, 1048600}};

template <class Run>
void for_sizes(const char* name, Run&& run) {
  Random random(test::seed(name));
  for (const Size& size : kSizes) run(random, size.rows, size.c, shaped(name, size.rows, size.c));
}

Numbers<std::int32_t> labels_or_none(Random& random, std::int64_t rows, std::int64_t classes) {
  auto drawn = labels(random, rows, classes);
  for (auto& label : drawn) label = random.integer(0, 4) == 0 ? -1 : label;
  return drawn;
}

TEST_SUITE("gpu/cuda/rows") {
  TEST_CASE("layer norm has the bits of the scalar class, forwards and backwards") {
    for_sizes("layer norm", [](Random& random, std::int64_t rows, std::int64_t c,
                               const std::string& what) {
      const Floats x = mixed(random, rows * c), dy = mixed(random, rows * c);
      const Floats gamma = random.normals(c), beta = random.normals(c);
      const std::vector<std::int64_t> sizes = {rows * c, rows, rows, rows * c, c, c};
      auto out = outputs(sizes), on_device = outputs(sizes);
      const KernelTable& t = reference();
      t.layer_norm_fwd(rows, c, x, gamma, beta, 1e-5f, out[0], out[1], out[2]);
      const Floats ws = workspace(t.layer_norm_bwd_workspace_floats(rows, c));
      layer_norm_bwd(t, rows, c, x, dy, out[1], out[2], gamma, out[3], out[4], out[5], ws, Alone());
      device().layer_norm_fwd(kStream, rows, c, x, gamma, beta, 1e-5f, on_device[0], on_device[1],
                              on_device[2]);
      // dx is written over dy.
      std::memcpy(on_device[3], dy, static_cast<std::size_t>(rows * c) * sizeof(float));
      const Floats device_ws = workspace(device().layer_norm_bwd_workspace_floats(rows, c));
      device().layer_norm_bwd(kStream, rows, c, x, on_device[3], on_device[1], on_device[2], gamma,
                              on_device[3], on_device[4], on_device[5], device_ws);
      check_same(what, out, on_device);
    });
  }

  TEST_CASE("softmax has the bits of the scalar class, also in place and for masked rows") {
    for_sizes(
        "softmax", [](Random& random, std::int64_t rows, std::int64_t c, const std::string& what) {
          const float masked = random.coin() ? -INFINITY : 3.0f;
          const Floats x(rows * c,
                         [&] { return random.integer(0, 9) == 0 ? masked : 10 * random.normal(); });
          // In the first row nothing is visible.
          for (std::int64_t i = 0; i < c; ++i) x[i] = -INFINITY;
          const Floats dy = mixed(random, rows * c);
          auto out = outputs({rows * c, rows * c});
          reference().softmax_fwd(rows, c, x, out[0]);
          reference().softmax_bwd(rows, c, out[0], dy, out[1]);
          std::vector<Floats> on_device;
          device().softmax_fwd(kStream, rows, c, x, x);
          on_device.push_back(copy(x));
          device().softmax_bwd(kStream, rows, c, x, dy, dy);
          on_device.push_back(copy(dy));
          check_same(what, out, on_device);
        });
  }

  TEST_CASE("softmax of NaN and infinite scores has the bits of the scalar class") {
    Random random(test::seed("device softmax special"));
    for (int trial = 0; trial < 20; ++trial) {
      const std::int64_t rows = random.integer(1, 20), c = random.integer(1, 100);
      const Floats x = any_floats(random, rows * c);
      auto out = outputs({rows * c}), on_device = outputs({rows * c});
      reference().softmax_fwd(rows, c, x, out[0]);
      device().softmax_fwd(kStream, rows, c, x, on_device[0]);
      check_same(shaped("softmax", rows, c), out, on_device);
    }
  }

  TEST_CASE("cross entropy has the bits of the scalar class, with rows without a label") {
    for_sizes("cross entropy", [](Random& random, std::int64_t rows, std::int64_t classes,
                                  const std::string& what) {
      const Floats logits(rows * classes, [&] { return 8 * random.normal(); });
      const auto labels = labels_or_none(random, rows, classes);
      const std::vector<std::int64_t> sizes = {rows * classes, rows, 1, rows * classes};
      auto out = outputs(sizes), on_device = outputs(sizes);
      const LabelledRows counted{rows, labels.data()};
      // Half of the sizes have the terms besides the first one.
      const LossTerms terms = rows % 2 == 0 ? LossTerms{} : LossTerms{0.1F, 1e-3F};
      reference().softmax_xent_fwd(rows, classes, logits, labels.data(), terms, out[0], out[1]);
      reference().softmax_xent_mean(rows, labels.data(), out[1], out[2]);
      reference().softmax_xent_bwd(rows, classes, out[0], labels.data(), counted, terms, out[3]);
      device().softmax_xent_fwd(kStream, rows, classes, logits, labels.data(), terms, on_device[0],
                                on_device[1]);
      device().softmax_xent_mean(kStream, rows, labels.data(), on_device[1], on_device[2]);
      device().softmax_xent_bwd(kStream, rows, classes, on_device[0], labels.data(), counted, terms,
                                on_device[3]);
      check_same(what, out, on_device);
      // In place, and some rows of a mini-batch: the last ones.
      const std::int64_t skipped = rows / 3, at = skipped * classes, some = rows - skipped;
      const std::size_t bytes = static_cast<std::size_t>(some * classes) * sizeof(float);
      const std::int32_t* last = labels.data() + skipped;
      device().softmax_xent_fwd(kStream, some, classes, logits + at, last, terms, logits + at,
                                on_device[1] + skipped);
      CHECK(std::memcmp(logits + at, out[0] + at, bytes) == 0);
      device().softmax_xent_bwd(kStream, some, classes, logits + at, last, counted, terms,
                                logits + at);
      CHECK(std::memcmp(logits + at, out[3] + at, bytes) == 0);
    });
  }

  TEST_CASE("cross entropy of many rows sums them in chunks, and of none with a label is zero") {
    Random random(test::seed("device cross entropy rows"));
    for (const std::int64_t rows : {16384, 16385, 40000}) {
      const Floats logits = random.normals(rows * 2);
      auto labels = labels_or_none(random, rows, 2);
      if (rows == 16385) labels.assign(labels.size(), -1);
      const LossTerms terms;
      auto out = outputs({rows * 2, rows, 1}), on_device = outputs({rows * 2, rows, 1});
      reference().softmax_xent_fwd(rows, 2, logits, labels.data(), terms, out[0], out[1]);
      reference().softmax_xent_mean(rows, labels.data(), out[1], out[2]);
      device().softmax_xent_fwd(kStream, rows, 2, logits, labels.data(), terms, on_device[0],
                                on_device[1]);
      device().softmax_xent_mean(kStream, rows, labels.data(), on_device[1], on_device[2]);
      check_same(shaped("cross entropy", rows, 2), out, on_device);
    }
  }

  TEST_CASE("binary cross entropy and squared error have the bits of the scalar class") {
    Random random(test::seed("device element losses"));
    for (const std::int64_t n : {1, 3, 4, 63, 64, 65, 1000, 16384, 16385, 70001, 1100000}) {
      const Floats x =
          n % 2 == 0 ? any_floats(random, n) : Floats(n, [&] { return 6 * random.normal(); });
      const Floats target(n, [&] { return random.coin() ? 1.0f : std::abs(random.normal()); });
      const std::vector<std::int64_t> sizes = {n, 1, n, n, 1, n};
      auto out = outputs(sizes), on_device = outputs(sizes);
      const Floats ws = workspace(device().mean_loss_workspace_floats(n));
      reference().bce_fwd(n, x, target, out[0], out[1]);
      reference().bce_bwd(n, x, target, out[2]);
      reference().mse_fwd(n, x, target, out[3], out[4]);
      reference().mse_bwd(n, x, target, out[5]);
      device().bce_fwd(kStream, n, x, target, on_device[0], on_device[1], ws);
      device().bce_bwd(kStream, n, x, target, on_device[2]);
      device().mse_fwd(kStream, n, x, target, on_device[3], on_device[4], ws);
      device().mse_bwd(kStream, n, x, target, on_device[5]);
      check_same(shaped("losses", n, 1), out, on_device);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
