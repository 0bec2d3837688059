#include <cmath>

#include "gpu/canonical/scalar_math.h"
#include "tests/gpu/canonical/random_program.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

constexpr Fold kFolds[] = {Fold::kProduct, Fold::kMaximum, Fold::kMinimum};

struct Size {
  std::int64_t rows, n;
};
constexpr Size kSizes[] = {{1, 1},   {5, 2},     {3, 15},    {2, 63},    {3, 64},   {4, 65},
                           {2, 333}, {2, 16384}, {2, 16385}, {1, 40000}, {129, 12}, {70, 130}};

// --- The definitions, once more.

float fold_two(Fold fold, float a, float b) {
  if (fold == Fold::kProduct) return a * b;
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return fold == Fold::kMaximum ? std::max(a, b) : std::min(a, b);
}

float fold_lanes(Fold fold, std::int64_t n, const float* x) {
  std::vector<float> lanes(64, fold == Fold::kProduct   ? 1.0f
                               : fold == Fold::kMaximum ? -INFINITY
                                                        : INFINITY);
  for (std::int64_t i = 0; i < n; ++i) lanes[i % 64] = fold_two(fold, lanes[i % 64], x[i]);
  for (int half = 32; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] = fold_two(fold, lanes[j], lanes[j + half]);
  return fold == Fold::kProduct ? lanes[0] : lanes[0] + 0.0f;
}

float sum_lanes(std::int64_t n, const float* x) {
  if (n > 16384) {
    std::vector<float> results;
    for (std::int64_t i = 0; i < n; i += 16384)
      results.push_back(sum_lanes(std::min<std::int64_t>(16384, n - i), x + i));
    return sum_lanes(std::ssize(results), results.data());
  }
  std::vector<float> lanes(64, 0.0f);
  for (std::int64_t i = 0; i < n; ++i) lanes[i % 64] += x[i];
  for (int half = 32; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0];
}

void check_bits(float actual, float expected) {
  if (std::isnan(actual) && std::isnan(expected)) return;
  REQUIRE(std::bit_cast<std::uint32_t>(actual) == std::bit_cast<std::uint32_t>(expected));
}

Floats values(Random& random, std::int64_t n, bool special) {
  return Floats(n, [&] {
    if (special && random.integer(0, 99) == 0) return any_float(random);
    return random.integer(0, 9) == 0 ? (random.coin() ? 0.0f : -0.0f) : random.normal();
  });
}

TEST_SUITE("gpu/canonical/fold") {
  TEST_CASE("reductions of rows follow their definition in every class") {
    Random random(test::seed("fold rows"));
    for (const Size& s : kSizes) {
      for (const bool special : {false, true}) {
        const Floats x = values(random, s.rows * s.n, special);
        const auto sums = same_in_all_classes("sum_rows", [&](const KernelTable& t) {
          std::vector<Floats> out;
          t.sum_rows(s.rows, s.n, x, out.emplace_back(s.rows));
          unify_nans(out);
          return out;
        });
        for (std::int64_t r = 0; r < s.rows; ++r)
          check_bits(sums[0][r], sum_lanes(s.n, x + r * s.n));
        for (const Fold fold : kFolds) {
          const auto folds = same_in_all_classes("fold_rows", [&](const KernelTable& t) {
            std::vector<Floats> out;
            t.fold_rows(fold, s.rows, s.n, x, out.emplace_back(s.rows));
            unify_nans(out);
            return out;
          });
          for (std::int64_t r = 0; r < s.rows; ++r)
            check_bits(folds[0][r], fold_lanes(fold, s.n, x + r * s.n));
        }
      }
    }
  }

  TEST_CASE("reductions of columns are chains, for any part of the columns") {
    Random random(test::seed("fold columns"));
    for (const Size& s : kSizes) {
      const Floats x = values(random, s.rows * s.n, true);
      const std::int64_t begin = random.integer(0, s.n - 1), end = random.integer(begin + 1, s.n);
      for (const Fold fold : kFolds) {
        const auto out = same_in_all_classes("fold_columns", [&](const KernelTable& t) {
          std::vector<Floats> y;
          t.fold_columns(fold, s.rows, s.n, begin, end, x, y.emplace_back(s.n));
          unify_nans(y);
          return y;
        });
        for (std::int64_t c = begin; c < end; ++c) {
          float v = x[c];
          for (std::int64_t r = 1; r < s.rows; ++r) v = fold_two(fold, v, x[r * s.n + c]);
          check_bits(out[0][c], fold == Fold::kProduct ? 1.0f * v : v + 0.0f);
        }
      }
    }
  }

  TEST_CASE("the index of an extreme is the lowest one of equals, or that of the first NaN") {
    const Floats x(12, [i = 0]() mutable {
      constexpr float kValues[] = {1, 3, 3, -2, -2, 0, 1, NAN, 5, NAN, 7, 7};
      return kValues[i++];
    });
    const auto indices = [&](Fold fold) {
      const auto out = same_in_all_classes("best_indices", [&](const KernelTable& t) {
        std::vector<Floats> y;
        t.best_indices(fold, 2, 6, x, reinterpret_cast<std::int32_t*>(y.emplace_back(2).data()));
        return y;
      });
      return std::pair{std::bit_cast<std::int32_t>(out[0][0]),
                       std::bit_cast<std::int32_t>(out[0][1])};
    };
    CHECK(indices(Fold::kMaximum) == std::pair{1, 1});
    CHECK(indices(Fold::kMinimum) == std::pair{3, 1});
  }

  TEST_CASE("running sums are chains from either end") {
    Random random(test::seed("running sums"));
    for (const std::int64_t inner : {1, 5, 40}) {
      for (const bool reverse : {false, true}) {
        const std::int64_t count = 3, n = random.integer(1, 60);
        const Floats x = random.normals(count * n * inner);
        const auto out = same_in_all_classes("running_sums", [&](const KernelTable& t) {
          std::vector<Floats> y;
          t.running_sums(count, n, inner, reverse, x, y.emplace_back(x.size()));
          return y;
        });
        for (std::int64_t i = 0; i < x.size(); ++i) {
          const std::int64_t at = i / inner % n, before = reverse ? i + inner : i - inner;
          const bool first = at == (reverse ? n - 1 : 0);
          check_bits(out[0][i], first ? x[i] : out[0][before] + x[i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
