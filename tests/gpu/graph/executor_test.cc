// How programs run: buckets, purity, faults. gradient_test.cc checks the numbers.
#include "gpu/graph/executor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "gpu/params/pytorch_layout.h"
#include "tests/gpu/graph/operator_cases.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/executor") {
  using namespace es::gpu;
  using es::FieldType;
  using es::test::StepRig;

  StepRig residual_network(const char* test, std::int64_t bucket_floats = 1000) {
    const Graph graph = es::test::network_cases()[0].graph;
    return StepRig(compile(graph), es::test::seed(test), {.bucket_floats = bucket_floats});
  }

  TEST_CASE("all buckets are reported once, in order, when their gradients are final") {
    StepRig s = residual_network("buckets", 64);
    REQUIRE(s.buckets.size() > 3);
    s.run();
    const AlignedBuffer expected = s.grads;
    std::fill_n(s.grads.data(), s.grads.floats(), std::numeric_limits<float>::quiet_NaN());
    std::uint32_t next = 0;
    const auto result = s.executor->run_local_step(s.step(), [&](std::uint32_t bucket) {
      CHECK(bucket == next++);
      const Bucket& b = s.buckets[bucket];
      CHECK(
          std::equal(s.grads.data() + b.begin, s.grads.data() + b.end, expected.data() + b.begin));
    });
    CHECK(result.ok());
    CHECK(next == s.buckets.size());
  }

  TEST_CASE("all gradients are written, and their padding is zero, for any content of the buffer") {
    for (const es::test::OperatorCase& c : es::test::operator_cases()) {
      INFO(c.name);
      StepRig s(compile(c.graph), es::test::seed("padding"));
      std::fill_n(s.grads.data(), s.grads.floats(), 5.0F);
      s.run();
      const AlignedBuffer first = s.grads;
      std::fill_n(s.grads.data(), s.grads.floats(), 7.0F);
      s.run();
      CHECK(std::equal(first.data(), first.data() + first.floats(), s.grads.data()));
      const ParamTable& table = s.graph().table;
      for (ParamId id = 0; id < static_cast<ParamId>(table.params().size()); ++id)
        for (std::int64_t i = table[id].offset + table[id].count; i < table.padded_end(id); ++i)
          CHECK(s.grads.data()[i] == 0.0F);
    }
  }

  TEST_CASE("a local step is a pure function of its arguments") {
    for (const es::test::OperatorCase& c : es::test::network_cases()) {
      INFO(c.name);
      StepRig s(compile(c.graph), es::test::seed("pure"));
      const std::vector<float> stats = s.stats;
      const std::vector<std::uint32_t> first = s.step_bits();
      s.evaluate();  // This leaves other values.
      CHECK(s.step_bits() == first);
      CHECK(s.stats == stats);
      CHECK((stats.empty() || s.next_stats != stats));
    }
  }

  TEST_CASE("dropout depends on seed, step and rank, and is off in evaluation") {
    StepRig s(compile(es::test::network_cases()[1].graph), es::test::seed("dropout"));
    const std::vector<std::uint32_t> evaluation = s.evaluation_bits();
    const DropoutKey key = s.key;
    const float loss = s.run();
    for (const DropoutKey& other : {DropoutKey{key.seed + 1, key.step, key.rank},
                                    DropoutKey{key.seed, key.step + 1, key.rank},
                                    DropoutKey{key.seed, key.step, key.rank + 1}}) {
      s.key = other;
      CHECK(s.run() != loss);
      CHECK(s.evaluation_bits() == evaluation);
    }
    s.key = key;
    CHECK(s.run() == loss);
  }

  TEST_CASE("random numbers depend on seed, step, rank and operator, also in evaluation") {
    GraphBuilder b("net", 2, {{{"x", FieldType::kF32, 1, 1, 40}}});
    const TensorId x = b.linear("fc", b.input("x"), {.out = 40});
    const TensorId first = b.uniform("first", b.shape(x)), second = b.uniform("second", b.shape(x));
    b.mse("loss", b.add("sum", x, b.binary("both", Function::kMul, first, second)),
          b.constant("zero", b.shape(x), std::vector<float>(80)));
    const Graph graph = *b.finish({first, second});
    StepRig s(compile(graph), es::test::seed("uniform"));
    const DropoutKey key = s.key;
    const std::vector<float> numbers = s.evaluate();
    const float loss = s.run();
    // Neither operator repeats a number of the other one at the same place.
    for (std::size_t i = 0; i < 80; ++i) CHECK(numbers[i] != numbers[80 + i]);
    for (const DropoutKey& other : {DropoutKey{key.seed + 1, key.step, key.rank},
                                    DropoutKey{key.seed, key.step + 1, key.rank},
                                    DropoutKey{key.seed, key.step, key.rank + 1}}) {
      s.key = other;
      CHECK(s.run() != loss);
      const std::vector<float> others = s.evaluate();
      for (std::size_t i = 0; i < 160; ++i) CHECK(others[i] != numbers[i]);
    }
    s.key = key;
    CHECK(s.run() == loss);
    CHECK(s.evaluate() == numbers);
  }

  TEST_CASE("changed parameters are used at once") {
    StepRig s = residual_network("changed");
    const float before = s.run();
    for (std::int64_t i = 0; i < s.graph().table[0].count; ++i) s.params.data()[i] *= 2.0F;
    CHECK(s.run() != before);
  }

  TEST_CASE("the evaluation of a sample does not depend on the rest of its batch") {
    StepRig s = residual_network("eval");
    const std::vector<float> before = s.evaluate();  // Logits [3][5] and losses [3].
    const std::int64_t image = s.graph().layout.fields[0].words();
    std::fill_n(s.words.begin() + image, 2 * image, 0.25F);
    const std::vector<float> after = s.evaluate();
    CHECK(std::equal(before.begin(), before.begin() + 5, after.begin()));
    CHECK(before[15] == after[15]);
    CHECK(before[16] != after[16]);
  }

  TEST_CASE("a linear after flatten computes what PyTorch computes with the same weights") {
    GraphBuilder b("net", 1, {{{"image", FieldType::kF32, 2, 3, 4}}});
    const TensorId y = b.linear("fc", b.flatten("flatten", b.input("image")), {.out = 5});
    b.mse("loss", y, b.constant("zero", {1, 1, 1, 5}, std::vector<float>(5)));
    StepRig s(compile(*b.finish({y})), es::test::seed("flatten"));
    std::vector<float> weight(5 * 24);  // PyTorch's [out][c*h*w]
    to_pytorch(s.graph().table[0], s.params.data(), weight.data());
    const float* bias = s.params.data() + s.graph().table[1].offset;
    const std::vector<float> out = s.evaluate();
    for (int o = 0; o < 5; ++o) {
      double expected = bias[o];
      for (int c = 0; c < 4; ++c)
        for (int pixel = 0; pixel < 6; ++pixel)
          expected += double(weight[o * 24 + c * 6 + pixel]) * s.words[pixel * 4 + c];
      CHECK(out[o] == doctest::Approx(expected).epsilon(1e-6));
    }
  }

  TEST_CASE(
      "an overflow is found also behind a ReLU, the error names the operator, and no bucket "
      "follows") {
    StepRig s = residual_network("overflow");
    const std::vector<ParamInfo>& params = s.graph().table.params();
    const auto conv2 = std::find_if(params.begin(), params.end(),
                                    [](const ParamInfo& p) { return p.name == "conv2.weight"; });
    // The values of the stem are not negative, so this channel is -inf or 0, and 0 after the ReLU.
    std::fill_n(s.params.data() + conv2->offset, conv2->count / 6,
                std::numeric_limits<float>::lowest());
    const LocalStepResult result =
        *s.executor->run_local_step(s.step(), [](std::uint32_t) { FAIL("bucket reported"); });
    REQUIRE(result.fault.op != nullptr);
    CHECK(result.fault.op->name == "conv2");
    CHECK(result.fault.op->kind == OpKind::kConv2d);
  }

  // Scores of four positions. The smallest number masks the last two, several times.
  Program masked_scores(int masks, float smallest) {
    GraphBuilder b("net", 2, {{{"image", FieldType::kF32, 1, 1, 4}}});
    TensorId x = b.linear("scores", b.input("image"), {.out = 4});
    const TensorId mask = b.constant("mask", {4}, {0.0F, 0.0F, smallest, smallest});
    for (int i = 0; i < masks; ++i)
      x = b.binary("mask" + std::to_string(i), Function::kAdd, x, mask);
    x = b.softmax("softmax", x);
    b.mse("loss", x, b.input("image"));
    return compile(*b.finish({x}));
  }

  TEST_CASE("masks that add up to -inf are no fault, but an overflow of other numbers is") {
    const float smallest = std::numeric_limits<float>::lowest();
    const auto fault = [&](int masks, float value) {
      StepRig s(masked_scores(masks, value), es::test::seed("masks"));
      const auto result = s.executor->run_local_step(s.step(), [](std::uint32_t) {});
      REQUIRE(result.ok());
      CHECK(std::isfinite(result->loss));
      return result->fault.op != nullptr;
    };
    CHECK_FALSE(fault(1, smallest));
    CHECK_FALSE(fault(2, smallest));
    CHECK_FALSE(fault(2, -std::numeric_limits<float>::infinity()));
    CHECK(fault(4, smallest * 0.4F));
  }
}
