#include <algorithm>
#include <cmath>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

std::string text(const PoolShape& s) {
  return "pool n=" + std::to_string(s.n) + " h=" + std::to_string(s.h) +
         " w=" + std::to_string(s.w) + " c=" + std::to_string(s.c) + " kh=" + std::to_string(s.kh) +
         " kw=" + std::to_string(s.kw) + " stride=" + std::to_string(s.stride_h) + "," +
         std::to_string(s.stride_w) + " pad=" + std::to_string(s.pad_h) + "," +
         std::to_string(s.pad_w);
}

PoolShape random_shape(Random& random) {
  PoolShape s;
  s.n = random.integer(1, 3);
  s.c = random.integer(1, 40);
  const bool wide = random.integer(0, 9) == 0;  // as many cells as a max pool may have
  s.kh = random.integer(1, wide ? 2 : 4);
  s.kw = wide ? kMaxPoolCells / s.kh : random.integer(1, 4);
  s.stride_h = random.integer(1, 3);
  s.stride_w = random.integer(1, 3);
  s.pad_h = random.integer(0, s.kh - 1);
  s.pad_w = random.integer(0, s.kw - 1);
  s.h = s.kh + random.integer(0, 9);
  s.w = s.kw + random.integer(0, 9);
  return s;
}

std::int64_t inputs(const PoolShape& s) {
  return s.n * s.h * s.w * s.c;
}
std::int64_t outputs(const PoolShape& s) {
  return s.n * s.oh() * s.ow() * s.c;
}

// y, argmax as floats, dx.
std::vector<Floats> run_max(const KernelTable& t, const PoolShape& s, const Floats& x,
                            const Floats& dy) {
  std::vector<Floats> out;
  GuardedBytes argmax(static_cast<std::size_t>(outputs(s)));
  t.max_pool_fwd(s, x, out.emplace_back(outputs(s)), argmax.data());
  out.emplace_back(outputs(s), [p = argmax.data()]() mutable { return static_cast<float>(*p++); });
  t.max_pool_bwd(s, dy, argmax.data(), out.emplace_back(inputs(s)));
  return out;
}

std::vector<Floats> run_avg(const KernelTable& t, const PoolShape& s, const Floats& x,
                            const Floats& dy) {
  std::vector<Floats> out;
  t.avg_pool_fwd(s, x, out.emplace_back(outputs(s)));
  t.avg_pool_bwd(s, dy, out.emplace_back(inputs(s)));
  return out;
}

// Both poolings in double precision, window by window.
struct Expected {
  explicit Expected(const PoolShape& s)
      : max(outputs(s)),
        argmax(outputs(s)),
        avg(outputs(s)),
        max_dx(inputs(s)),
        avg_dx(inputs(s)) {}
  std::vector<double> max, argmax, avg, max_dx, avg_dx;
};

Expected expected(const PoolShape& s, const Floats& x, const Floats& dy) {
  Expected e(s);
  for (std::int64_t i = 0; i < outputs(s); ++i) {
    const std::int64_t c = i % s.c, ow = i / s.c % s.ow(), oh = i / s.c / s.ow() % s.oh();
    const std::int64_t n = i / s.c / s.ow() / s.oh();
    std::vector<std::pair<std::int64_t, std::int64_t>> cells;  // (input element, tap)
    for (std::int64_t t = 0; t < s.kh * s.kw; ++t) {
      const std::int64_t h = oh * s.stride_h + t / s.kw - s.pad_h;
      const std::int64_t w = ow * s.stride_w + t % s.kw - s.pad_w;
      if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
      cells.emplace_back(((n * s.h + h) * s.w + w) * s.c + c, t);
    }
    const auto best = *std::max_element(  // The first of equal maxima.
        cells.begin(), cells.end(), [&](auto& a, auto& b) { return x[a.first] < x[b.first]; });
    e.max[i] = x[best.first];
    e.argmax[i] = static_cast<double>(best.second);
    e.max_dx[best.first] += dy[i];
    for (const auto& [cell, tap] : cells) {
      e.avg[i] += x[cell] / static_cast<double>(cells.size());
      e.avg_dx[cell] += dy[i] / static_cast<double>(cells.size());
    }
  }
  return e;
}

void check_all(const Floats& actual, const std::vector<double>& wanted, double bound,
               const std::string& what) {
  for (std::size_t i = 0; i < wanted.size(); ++i) check_near(actual[i], wanted[i], bound, what);
}

// Both passes window by window, with bounds found by comparing fractions.
void check_adaptive(const AdaptivePoolShape& s, const Floats& x, const Floats& dy,
                    const std::vector<Floats>& out) {
  std::vector<double> y(dy.size()), dx(x.size());
  const auto covers = [](std::int64_t size, std::int64_t outputs, std::int64_t o, std::int64_t i) {
    return (i + 1) * outputs > o * size && i * outputs < (o + 1) * size;
  };
  for (std::int64_t i = 0; i < dy.size(); ++i) {
    const std::int64_t c = i % s.c, ow = i / s.c % s.ow, oh = i / s.c / s.ow % s.oh;
    const std::int64_t n = i / s.c / s.ow / s.oh;
    std::vector<std::int64_t> cells;
    for (std::int64_t cell = 0; cell < s.h * s.w; ++cell) {
      if (!covers(s.h, s.oh, oh, cell / s.w) || !covers(s.w, s.ow, ow, cell % s.w)) continue;
      cells.push_back((n * s.h * s.w + cell) * s.c + c);
    }
    for (const std::int64_t cell : cells) {
      y[i] += x[cell] / static_cast<double>(cells.size());
      dx[cell] += dy[i] / static_cast<double>(cells.size());
    }
  }
  check_all(out[0], y, 1e-5, "adaptive average");
  check_all(out[1], dx, 1e-5, "adaptive average gradient");
}

TEST_SUITE("gpu/canonical/pool") {
  TEST_CASE("pooling of any shape has the same bits in every class and the right values") {
    Random random(test::seed("pool"));
    for (int i = 0; i < 60; ++i) {
      const PoolShape s = random_shape(random);
      // Few distinct values, so that most windows have several equal maxima.
      const Floats x(inputs(s), [&] { return static_cast<float>(random.integer(-3, 3)); });
      const Floats dy = random.normals(outputs(s));
      const auto max = same_in_all_classes(
          "max " + text(s), [&](const KernelTable& t) { return run_max(t, s, x, dy); });
      const auto avg = same_in_all_classes(
          "average " + text(s), [&](const KernelTable& t) { return run_avg(t, s, x, dy); });
      const Expected e = expected(s, x, dy);
      check_all(max[0], e.max, 0, "max");
      check_all(max[1], e.argmax, 0, "argmax");
      check_all(max[2], e.max_dx, 1e-5, "max gradient");
      check_all(avg[0], e.avg, 1e-5, "average");
      check_all(avg[1], e.avg_dx, 1e-5, "average gradient");
    }
  }

  TEST_CASE("the first of equal maxima wins, and the first NaN wins over all") {
    const PoolShape s{.n = 1, .h = 1, .w = 3, .c = 1, .kh = 1, .kw = 3};
    const float nan = std::nanf("");
    const struct {
      float x[3];
      float argmax;
    } cases[] = {{{2, 2, 1}, 0},   {{1, 2, 2}, 1},   {{-0.0f, 0.0f, -1}, 0},   {{1, nan, 2}, 1},
                 {{nan, 5, 6}, 0}, {{1, 2, nan}, 2}, {{-1, nan, INFINITY}, 1}, {{nan, nan, 3}, 0}};
    for (const auto& c : cases) {
      Floats x(3, [p = c.x]() mutable { return *p++; }), dy(1, [] { return 1.0f; });
      same_in_all_classes("argmax", [&](const KernelTable& t) {
        auto out = run_max(t, s, x, dy);
        CHECK(out[1][0] == c.argmax);
        return out;
      });
    }
  }

  TEST_CASE("adaptive average pooling has the same bits in every class and the right values") {
    Random random(test::seed("adaptive pool"));
    for (int i = 0; i < 40; ++i) {
      const AdaptivePoolShape s{random.integer(1, 3),  random.integer(1, 9), random.integer(1, 12),
                                random.integer(1, 40), random.integer(1, 9), random.integer(1, 9)};
      const Floats x = random.normals(s.n * s.h * s.w * s.c);
      const Floats dy = random.normals(s.n * s.oh * s.ow * s.c);
      const auto out = same_in_all_classes("adaptive pool", [&](const KernelTable& t) {
        std::vector<Floats> result;
        t.adaptive_avg_pool_fwd(s, x, result.emplace_back(dy.size()));
        t.adaptive_avg_pool_bwd(s, dy, result.emplace_back(x.size()));
        return result;
      });
      check_adaptive(s, x, dy, out);
    }
  }

  TEST_CASE("global average pooling sums the rows of each image by the column rule") {
    Random random(test::seed("global pool"));
    for (const std::int64_t hw : {1, 16, 49, 65, 4100}) {
      const std::int64_t n = random.integer(1, 3), c = random.integer(1, 70);
      const Floats x = random.normals(n * hw * c), dy = random.normals(n * c);
      const auto out = same_in_all_classes("global pool", [&](const KernelTable& t) {
        std::vector<Floats> result;
        Floats ws = workspace(t.global_avg_pool_workspace_floats(hw, c));
        t.global_avg_pool_fwd(n, hw, c, x, result.emplace_back(n * c), ws);
        t.global_avg_pool_bwd(n, hw, c, dy, result.emplace_back(n * hw * c));
        return result;
      });
      for (std::int64_t i = 0; i < n * c; ++i) {
        double sum = 0;
        for (std::int64_t r = 0; r < hw; ++r) sum += x[(i / c * hw + r) * c + i % c];
        check_near(out[0][i], sum / hw, 1e-5, "global average");
        for (std::int64_t r = 0; r < hw; ++r) {
          check_near(out[1][(i / c * hw + r) * c + i % c], dy[i] / static_cast<double>(hw), 1e-6,
                     "global average gradient");
        }
      }
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
