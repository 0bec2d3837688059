// Differentiation and execution together, against an fp64 reference.
#include "gpu/graph/executor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "gpu/graph/builder.h"
#include "gpu/models/models.h"
#include "gpu/params/initialise.h"
#include "gpu/params/pytorch_layout.h"
#include "tests/gpu/support/reference_fp64.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/executor") {
  using namespace es::gpu;
  using es::CpuClass;

  // Every operator once, tensors with two and three readers, a bias on a grouped convolution.
  Graph every_operator() {
    GraphBuilder b("every", {3, 7, 9, 4});
    TensorId x = b.conv2d("conv1", b.input(), {.out = 6, .pad = 1, .groups = 2, .bias = true});
    const TensorId stem = b.batch_norm("bn1", x, {.relu = true});
    TensorId left = b.conv2d("conv2", stem, {.out = 6, .pad = 1});
    left = b.relu("relu", b.add("add1", left, stem));
    const TensorId right = b.batch_norm("bn2", stem);
    x = b.add("add2", left, right, {.relu = true});
    x = b.avg_pool("avg", x, {.kernel = 3, .stride = 2, .pad = 1});
    const TensorId pooled = b.max_pool("max", x, {.kernel = 2, .stride = 1});
    const TensorId flat = b.linear("fc1", b.flatten("flatten", pooled), {.out = 5});
    const TensorId global = b.linear("fc2", b.global_avg_pool("gap", x), {.out = 5, .bias = false});
    return *b.finish(b.add("logits", flat, global));
  }

  struct Setup {
    Graph graph;
    std::vector<Bucket> buckets;
    Executor executor;
    AlignedBuffer params, grads;
    std::vector<float> stats, next_stats, images;
    std::vector<std::int32_t> labels;

    Setup(Graph g, std::int64_t bucket_floats, std::mt19937_64& random)
        : graph(std::move(g)),
          buckets(cut_buckets(graph.table, bucket_floats)),
          executor(differentiate(graph), kernel_table(CpuClass::kScalar), buckets),
          params(graph.table.total_floats()),
          grads(graph.table.total_floats()),
          stats(initial_stats(graph.table)),
          next_stats(stats.size()) {
      initialise_params(graph.table, random(), params.data());
      std::uniform_real_distribution<float> pixel(-1.0F, 1.0F);
      images.resize(static_cast<std::size_t>(graph.shape(graph.input).count()));
      for (float& v : images) v = pixel(random);
      const TensorShape& logits = graph.shape(graph.logits);
      for (std::int64_t i = 0; i < logits.n; ++i)
        labels.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(logits.c)));
    }

    LocalStep step() {
      return {params.data(),
              stats.data(),
              next_stats.data(),
              grads.data(),
              {images.data(), labels.data()}};
    }
    float loss() {
      executor.invalidate_weights();
      return executor.run_local_step(step(), [](std::uint32_t) {}).loss;
    }
  };

  // The derivative of the fp64 reference loss along `direction`, which is a vector over one
  // parameter. The step is so short that hardly any ReLU or maximum changes sides within it.
  double reference_slope(const Setup& s, const ParamInfo& p, const std::vector<double>& direction) {
    constexpr double kStep = 1e-6;
    const auto loss_at = [&](double scale) {
      std::vector<double> params(s.params.data(), s.params.data() + s.params.floats());
      for (std::int64_t i = 0; i < p.count; ++i) params[p.offset + i] += scale * direction[i];
      return es::test::reference_loss(s.graph, params, s.images, s.labels);
    };
    return (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  }

  std::vector<double> random_unit_vector(std::mt19937_64 & random, std::int64_t count) {
    std::vector<double> v(static_cast<std::size_t>(count));
    double square = 0.0;
    for (double& x : v) {
      x = std::normal_distribution<double>()(random);
      square += x * x;
    }
    for (double& x : v) x /= std::sqrt(square);
    return v;
  }

  TEST_CASE("loss and the gradient of every parameter agree with an fp64 reference") {
    std::mt19937_64 random(es::test::seed("executor"));
    for (int trial = 0; trial < 3; ++trial) {
      Setup s(every_operator(), 1000, random);
      const double loss = s.loss();
      const std::vector<double> params(s.params.data(), s.params.data() + s.params.floats());
      const double expected_loss = es::test::reference_loss(s.graph, params, s.images, s.labels);
      CHECK(std::abs(loss - expected_loss) / expected_loss < 2e-6);
      for (const ParamInfo& p : s.graph.table.params()) {
        const std::vector<double> direction = random_unit_vector(random, p.count);
        double slope = 0.0, length = 0.0;
        for (std::int64_t i = 0; i < p.count; ++i) {
          const double g = s.grads.data()[p.offset + i];
          slope += g * direction[i];
          length += g * g;
        }
        INFO(p.name);
        CHECK(std::abs(slope - reference_slope(s, p, direction)) <
              1e-5 * (std::sqrt(length) + 0.1));
      }
    }
  }

  TEST_CASE("all buckets are reported once, in order, when their gradients are final") {
    std::mt19937_64 random(es::test::seed("buckets"));
    Setup s(every_operator(), 64, random);
    REQUIRE(s.buckets.size() > 3);
    s.loss();
    const AlignedBuffer expected = s.grads;
    std::fill_n(s.grads.data(), s.grads.floats(), std::numeric_limits<float>::quiet_NaN());
    std::uint32_t next = 0;
    s.executor.run_local_step(s.step(), [&](std::uint32_t bucket) {
      CHECK(bucket == next++);
      const Bucket& b = s.buckets[bucket];
      CHECK(
          std::equal(s.grads.data() + b.begin, s.grads.data() + b.end, expected.data() + b.begin));
    });
    CHECK(next == s.buckets.size());
  }

  TEST_CASE("the padding of gradients is zero whatever the buffer held") {
    std::mt19937_64 random(es::test::seed("padding"));
    Setup s(every_operator(), 1000, random);
    std::fill_n(s.grads.data(), s.grads.floats(), 5.0F);
    s.loss();
    const ParamTable& table = s.graph.table;
    for (ParamId id = 0; id < static_cast<ParamId>(table.params().size()); ++id)
      for (std::int64_t i = table[id].offset + table[id].count; i < table.padded_end(id); ++i)
        CHECK(s.grads.data()[i] == 0.0F);
  }

  TEST_CASE("a local step is a pure function of its arguments") {
    std::mt19937_64 random(es::test::seed("pure"));
    Setup s(every_operator(), 1000, random);
    const std::vector<float> stats = s.stats;
    const float first = s.loss();
    const AlignedBuffer grads = s.grads;
    const std::vector<float> next = s.next_stats;
    s.executor.run_eval(s.params.data(), s.stats.data(), s.step().batch);  // leaves other values
    CHECK(s.loss() == first);
    CHECK(std::equal(grads.data(), grads.data() + grads.floats(), s.grads.data()));
    CHECK(s.next_stats == next);
    CHECK(s.stats == stats);
    CHECK(next != stats);
  }

  TEST_CASE("packed weights are used until they are invalidated") {
    std::mt19937_64 random(es::test::seed("packed"));
    Setup s(*build_small_cnn({2, 8, 8, 1}, 4, 10), 1000, random);
    const float before = s.loss();
    for (std::int64_t i = 0; i < s.graph.table[0].count; ++i) s.params.data()[i] *= 2.0F;
    s.executor.invalidate_weights();
    const float after = s.executor.run_local_step(s.step(), [](std::uint32_t) {}).loss;
    CHECK(after != before);
    CHECK(s.loss() == after);
  }

  TEST_CASE("a sample's evaluation does not depend on the rest of its batch") {
    std::mt19937_64 random(es::test::seed("eval"));
    Setup s(*build_small_cnn({3, 8, 8, 1}, 4, 10), 1000, random);
    const auto out = s.executor.run_eval(s.params.data(), s.stats.data(), s.step().batch);
    const std::vector<float> first(out.logits, out.logits + 10);
    const float first_loss = out.row_loss[0];
    std::fill(s.images.begin() + 64, s.images.end(), 0.25F);
    const auto again = s.executor.run_eval(s.params.data(), s.stats.data(), s.step().batch);
    CHECK(std::equal(first.begin(), first.end(), again.logits));
    CHECK(again.row_loss[0] == first_loss);
  }

  TEST_CASE("a linear after flatten computes what PyTorch computes with the same weights") {
    std::mt19937_64 random(es::test::seed("flatten"));
    GraphBuilder b("net", {1, 2, 3, 4});
    Setup s(*b.finish(b.linear("fc", b.flatten("flatten", b.input()), {.out = 5})), 1000, random);
    std::vector<float> weight(5 * 24);  // PyTorch's [out][c*h*w]
    to_pytorch(s.graph.table[0], s.params.data(), weight.data());
    const float* bias = s.params.data() + s.graph.table[1].offset;
    const auto out = s.executor.run_eval(s.params.data(), s.stats.data(), s.step().batch);
    for (int o = 0; o < 5; ++o) {
      double expected = bias[o];
      for (int c = 0; c < 4; ++c)
        for (int pixel = 0; pixel < 6; ++pixel)
          expected += double(weight[o * 24 + c * 6 + pixel]) * s.images[pixel * 4 + c];
      CHECK(out.logits[o] == doctest::Approx(expected).epsilon(1e-6));
    }
  }

  TEST_CASE("a NaN is found even where a ReLU hides it, reported by operator, with no bucket") {
    std::mt19937_64 random(es::test::seed("nan"));
    Setup s(*build_resnet18({2, 8, 8, 3}, 4, 10), 100000, random);
    std::size_t index = 0;
    while (s.graph.table.params()[index].name != "layer2.0.conv1.weight") ++index;
    s.params.data()[s.graph.table.params()[index].offset] = std::numeric_limits<float>::quiet_NaN();
    const LocalStepResult result =
        s.executor.run_local_step(s.step(), [](std::uint32_t) { FAIL("bucket reported"); });
    CHECK_FALSE(result.finite);
    CHECK(s.executor.first_non_finite_op(s.step()) == "layer2.0.conv1 (conv2d)");
  }
}
