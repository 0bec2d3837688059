#include <bit>
#include <cmath>
#include <cstring>

#include "gpu/canonical/scalar_math.h"
#include "proto/base/philox.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

constexpr DropoutKey kKey{.seed = 0x0123456789abcdef, .step = 77, .rank = 5};

Dropout dropout(double p, std::uint32_t op) {
  return {.threshold = static_cast<std::uint32_t>(std::llround((1 - p) * 0x1p32)),
          .op = op,
          .factor = static_cast<float>(1 / (1 - p))};
}

std::vector<Floats> run(const KernelTable& t, std::int64_t begin, std::int64_t end, const Floats& x,
                        const std::vector<ChainStage>& stages) {
  std::vector<Floats> out;
  t.chain(begin, end, x, stages.data(), static_cast<std::int64_t>(stages.size()), kKey,
          out.emplace_back(x.size()));
  return out;
}

Floats copy(const Floats& x) {
  return Floats(x.size(), [p = x.data()]() mutable { return *p++; });
}

constexpr ChainKind kKinds[] = {
    ChainKind::kScale,    ChainKind::kAdd,       ChainKind::kMul,         ChainKind::kAddRow,
    ChainKind::kRelu,     ChainKind::kLeakyRelu, ChainKind::kGelu,        ChainKind::kTanh,
    ChainKind::kSigmoid,  ChainKind::kDropout,   ChainKind::kReluGrad,    ChainKind::kLeakyReluGrad,
    ChainKind::kGeluGrad, ChainKind::kTanhGrad,  ChainKind::kSigmoidGrad, ChainKind::kRoundBf16};

ChainStage random_stage(Random& random, const Floats& operand) {
  ChainStage stage{.kind = kKinds[random.integer(0, std::size(kKinds) - 1)],
                   .operand = operand,
                   .factor = random.normal()};
  if (stage.kind == ChainKind::kAddRow) stage.columns = random.integer(1, operand.size());
  if (stage.kind == ChainKind::kDropout) {
    stage.columns = random.coin() ? 1 : random.integer(1, operand.size());
    stage.dropout = dropout(0.3, static_cast<std::uint32_t>(random.integer(0, 9)));
  }
  return stage;
}

// The effect of a stage on value v of element i, in double precision.
double exact(const ChainStage& s, std::int64_t i, double v) {
  const double x = s.operand[i], normal = std::erfc(-x / std::sqrt(2.0)) / 2;
  const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
  switch (s.kind) {
    case ChainKind::kScale:
      return v * s.factor;
    case ChainKind::kAdd:
      return v + x;
    case ChainKind::kMul:
      return v * x;
    case ChainKind::kAddRow:
      return v + s.operand[i % s.columns];
    case ChainKind::kRelu:
      return std::max(v, 0.0);
    case ChainKind::kLeakyRelu:
      return v > 0 ? v : v * s.factor;
    case ChainKind::kGelu:
      return v / 2 * std::erfc(-v / std::sqrt(2.0));
    case ChainKind::kTanh:
      return std::tanh(v);
    case ChainKind::kSigmoid:
      return 1 / (1 + std::exp(-v));
    case ChainKind::kReluGrad:
      return x > 0 ? v : 0;
    case ChainKind::kLeakyReluGrad:
      return x > 0 ? v : v * s.factor;
    case ChainKind::kGeluGrad:
      return v * (normal + x * density);
    case ChainKind::kTanhGrad:
      return v * (1 - x * x);
    case ChainKind::kSigmoidGrad:
      return v * x * (1 - x);
    case ChainKind::kDropout: {
      const auto e = static_cast<std::uint64_t>(i / s.columns);
      const auto words = philox4x32_10({static_cast<std::uint32_t>((e >> 7) * 32 + (e & 31)),
                                        s.dropout.op, kKey.step, kKey.rank},
                                       philox_key(kKey.seed));
      return words[(e >> 5) & 3] < s.dropout.threshold ? v * s.dropout.factor : 0;
    }
    case ChainKind::kRoundBf16: {
      // Eight bits of mantissa; normal numbers only.
      int exponent = 0;
      const double mantissa = std::frexp(v, &exponent);
      return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
    }
  }
  return NAN;
}

TEST_SUITE("gpu/canonical/chain") {
  TEST_CASE("every stage computes its formula") {
    Random random(test::seed("chain stages"));
    const std::int64_t n = 3000;
    const Floats x = random.normals(n), operand = random.normals(n);
    for (const ChainKind kind : kKinds) {
      for (const std::int64_t columns : {1, 7, 64, 333}) {
        const ChainStage stage{kind, operand, 0.3f, columns, dropout(0.25, 3)};
        const auto out =
            same_in_all_classes("kind " + std::to_string(static_cast<int>(kind)),
                                [&](const KernelTable& t) { return run(t, 0, n, x, {stage}); });
        for (std::int64_t i = 0; i < n; ++i) {
          const double expected = exact(stage, i, x[i]);
          check_near(out[0][i], expected, 1e-6 * (1 + std::abs(expected)), "stage");
        }
      }
    }
  }

  TEST_CASE("any chain over any range has the same bits in every class and changes nothing else") {
    Random random(test::seed("chains"));
    for (int trial = 0; trial < 300; ++trial) {
      const std::int64_t n = random.integer(1, random.coin() ? 100 : 5000);
      const Floats x = random.normals(n), a = random.normals(n), b = random.normals(n);
      std::vector<ChainStage> stages;
      for (std::int64_t s = random.integer(0, 5); s > 0; --s) {
        stages.push_back(random_stage(random, random.coin() ? a : b));
      }
      const std::int64_t begin = random.integer(0, n), end = random.integer(begin, n);
      const auto part =
          same_in_all_classes("chain of " + std::to_string(stages.size()),
                              [&](const KernelTable& t) { return run(t, begin, end, x, stages); });
      const auto whole = run(reference(), 0, n, x, stages);
      for (std::int64_t i = 0; i < n; ++i) {
        if (i < begin || i >= end) {
          REQUIRE(std::isnan(part[0][i]));
        } else {
          REQUIRE(std::memcmp(&part[0][i], &whole[0][i], sizeof(float)) == 0);
        }
      }
    }
  }

  TEST_CASE("the result may be the input or an operand of any stage") {
    Random random(test::seed("chain in place"));
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    const std::int64_t n = 2500;
    const Floats x = random.normals(n), a = random.normals(n);
    const std::vector<ChainStage> stages = {{.kind = ChainKind::kScale, .factor = 2.0f},
                                            {.kind = ChainKind::kMul, .operand = a},
                                            {.kind = ChainKind::kGelu},
                                            {.kind = ChainKind::kAdd, .operand = a}};
    const auto apart = run(reference(), 0, n, x, stages);
    for (const KernelTable* t : tables) {
      Floats y = copy(x);
      t->chain(0, n, y, stages.data(), 4, kKey, y);
      CHECK(y.first_difference(apart[0]) == -1);
      Floats operand = copy(a);
      auto aliased = stages;
      aliased[1].operand = aliased[3].operand = operand;
      t->chain(0, n, x, aliased.data(), 4, kKey, operand);
      CHECK(operand.first_difference(apart[0]) == -1);
    }
  }

  TEST_CASE("the functions have the same bits in every class for all kinds of floats") {
    Random random(test::seed("chain special values"));
    const std::int64_t n = 200000;
    const float special[] = {0.0f,       -0.0f,           INFINITY,        -INFINITY,
                             NAN,        0x1p-149f,       -0x1p-149f,      0x1p-126f,
                             -0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f};
    std::int64_t i = 0;
    const Floats x(n, [&] {
      if (i < std::ssize(special)) return special[i++];
      if (i++ % 2 == 0) return random.normal() * 20;
      return std::bit_cast<float>(static_cast<std::uint32_t>(random.integer(0, 0xffffffff)));
    });
    const Floats ones(n, [] { return 1.0f; });
    for (const ChainKind kind :
         {ChainKind::kGelu, ChainKind::kTanh, ChainKind::kSigmoid, ChainKind::kGeluGrad,
          ChainKind::kTanhGrad, ChainKind::kSigmoidGrad, ChainKind::kLeakyRelu}) {
      const bool gradient = kind >= ChainKind::kReluGrad;
      const ChainStage stage{.kind = kind, .operand = x, .factor = 0.1f};
      same_in_all_classes("kind " + std::to_string(static_cast<int>(kind)),
                          [&](const KernelTable& t) {
                            auto out = run(t, 0, n, gradient ? ones : x, {stage});
                            for (std::int64_t j = 0; j < n; ++j) {  // NaNs have no defined bits.
                              if (std::isnan(out[0][j])) out[0][j] = NAN;
                            }
                            return out;
                          });
    }
  }

  TEST_CASE("dropout keeps the configured share, and other draws give other decisions") {
    const std::int64_t n = 1 << 18;
    const Floats ones(n, [] { return 1.0f; });
    for (const double p : {0.1, 0.5, 0.9}) {
      const auto out =
          run(reference(), 0, n, ones, {{.kind = ChainKind::kDropout, .dropout = dropout(p, 1)}});
      std::int64_t kept = 0;
      for (std::int64_t i = 0; i < n; ++i) kept += out[0][i] != 0.0f ? 1 : 0;
      CHECK(std::abs(kept - n * (1 - p)) < 5 * std::sqrt(n * p * (1 - p)));
    }
    const auto draw = [&](Dropout d) {
      return run(reference(), 0, 1000, ones, {{.kind = ChainKind::kDropout, .dropout = d}});
    };
    CHECK(draw(dropout(0.5, 1))[0].first_difference(draw(dropout(0.5, 2))[0]) != -1);
    CHECK(draw({})[0].first_difference(draw({})[0]) == -1);
    CHECK(draw({})[0][0] == 1.0f);  // Threshold 0 means no dropout.
  }

  TEST_CASE("every class draws the uniform numbers of Philox, for any range") {
    Random random(test::seed("uniform"));
    for (int trial = 0; trial < 100; ++trial) {
      const std::int64_t n = random.integer(1, random.coin() ? 300 : 5000);
      const std::int64_t begin = random.integer(0, n - 1), end = random.integer(begin, n);
      const auto op = static_cast<std::uint32_t>(random.integer(0, 0xffffffff));
      Floats expected(n);
      for (std::int64_t e = begin; e < end; ++e) {
        const auto block = static_cast<std::uint32_t>((e >> 7) * 32 + (e & 31));
        const auto words = philox4x32_10({block, op, kKey.step, kKey.rank}, philox_key(kKey.seed));
        expected[e] = uniform_float(words[(e >> 5) & 3]);
      }
      for (const CpuClass c : supported_cpu_classes()) {
        const Floats y(n);  // Elements outside of the range keep their NaN.
        kernel_table(c).uniform(begin, end, op, kKey, y);
        CHECK(y.first_difference(expected) == -1);
      }
    }
  }

  TEST_CASE("uniform numbers have the moments of their distribution and are not correlated") {
    const std::int64_t n = 1 << 18;
    const auto draw = [&](std::uint32_t op, DropoutKey key) {
      Floats y(n);
      reference().uniform(0, n, op, key, y);
      return y;
    };
    // The mean of products of centred numbers, in units of its standard deviation.
    const auto correlation = [&](const Floats& a, const Floats& b) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += (a[i] - 0.5) * (b[i] - 0.5);
      return sum * 12 / std::sqrt(static_cast<double>(n));
    };
    const Floats y = draw(1, kKey);
    double mean = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      CHECK((y[i] >= 0 && y[i] < 1));
      mean += y[i] / n;
    }
    CHECK(std::abs(mean - 0.5) * std::sqrt(12.0 * n) < 5);
    // The variance is 1/12, and the fourth central moment 1/80.
    CHECK(std::abs(correlation(y, y) / 12 / std::sqrt(static_cast<double>(n)) - 1.0 / 12) *
              std::sqrt(180.0 * n) <
          5);
    for (const Floats& other :
         {draw(2, kKey), draw(1 | 0x80000000, kKey), draw(1, {kKey.seed + 1, kKey.step, kKey.rank}),
          draw(1, {kKey.seed, kKey.step + 1, kKey.rank}),
          draw(1, {kKey.seed, kKey.step, kKey.rank + 1}),
          draw(1, {kKey.seed, kKey.step, kEvaluationRank})})
      CHECK(std::abs(correlation(y, other)) < 5);
  }
}

}  // namespace
}  // namespace es::gpu::testing
