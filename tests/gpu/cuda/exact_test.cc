// Exact products (G1X) by each route of the device: tensor cores give the bits of the definition.
#include <algorithm>
#include <cstring>

#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

using cuda::ExactRoute;

constexpr ExactRoute kRoutes[] = {ExactRoute::kResults, ExactRoute::kTiles, ExactRoute::kGroups};
constexpr Arithmetic kBoth[] = {Arithmetic::kX15, Arithmetic::kX22};

// Numbers for which kernels have gone wrong: of one sign or both, of wide range, subnormal, the
// largest integers, halves, and numbers that are not finite.
Floats numbers(Random& random, std::int64_t n) {
  const std::int64_t family = random.integer(0, 6);
  if (family == 0) return any_floats(random, n);
  if (family == 1) return mixed(random, n);
  return Floats(n, [&] {
    const float x = random.normal();
    const auto word = static_cast<std::uint32_t>(random.integer(0, 0xffffffff));
    switch (family) {
      case 2:
        return std::ldexp(x, static_cast<int>(random.integer(-30, 30)));
      case 3:
        return std::bit_cast<float>(word & 0x80ffffffu);
      case 4:
        return std::copysign(std::bit_cast<float>(0x3f7fffffu), x);
      case 5:
        return word % 700 == 0 ? -INFINITY : x;
      default:
        return static_cast<float>(random.integer(-1000, 1000)) * 0.5f;
    }
  });
}

struct Product {
  GemmShape shape;
  std::int64_t count, a_step, b_step, c_step;
  Floats a, b, bias;
  bool has_bias;

  const float* bias_or_null() const { return has_bias ? bias.data() : nullptr; }
  Floats seven() const {
    return Floats(count * c_step, [] { return 7.0f; });
  }  // Gaps stay.
};

Product random_product(Random& random, std::int64_t m, std::int64_t n, std::int64_t k,
                       std::int64_t count, Arithmetic arithmetic) {
  GemmShape s{.m = m, .n = n, .k = k, .add = random.coin(), .arithmetic = arithmetic};
  const std::int64_t gap = random.integer(0, 5);
  const std::int64_t a_step = layout(random, m, k, s.a_row, s.a_col) + gap;
  const std::int64_t b_step = layout(random, k, n, s.b_row, s.b_col) + gap;
  const std::int64_t c_step = layout(random, m, n, s.c_row, s.c_col) + gap;
  return {s,
          count,
          a_step,
          b_step,
          c_step,
          numbers(random, count * a_step),
          numbers(random, count * b_step),
          random.normals(n),
          random.coin()};
}

std::string text(const Product& p, ExactRoute route) {
  const GemmShape& s = p.shape;
  return std::string(s.arithmetic == Arithmetic::kX15 ? "x15" : "x22") + " route " +
         std::to_string(static_cast<int>(route)) + ": " + std::to_string(p.count) + " of " +
         std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k) + ", a " +
         std::to_string(s.a_row) + "," + std::to_string(s.a_col) + " b " + std::to_string(s.b_row) +
         "," + std::to_string(s.b_col) + " c " + std::to_string(s.c_row) + "," +
         std::to_string(s.c_col) + (s.add ? " added" : "") + (p.has_bias ? " bias" : "");
}

Floats by_definition(const Product& p) {
  Floats c = p.seven();
  for (std::int64_t i = 0; i < p.count; ++i) {
    const Floats ws = workspace(reference().gemm_workspace_floats(p.shape));
    reference().gemm(p.shape, p.a + i * p.a_step, p.b + i * p.b_step, p.bias_or_null(),
                     c + i * p.c_step, ws);
  }
  return c;
}

Floats by_route(const Product& p, ExactRoute route) {
  Floats c = p.seven();
  const Floats ws = workspace(device().gemm_workspace_floats(p.shape, p.count));
  device().exact_gemm(kStream, route, p.shape, p.count, p.a_step, p.b_step, p.c_step, p.a, p.b,
                      p.bias_or_null(), c, ws);
  finish();
  return c;
}

// Compares all bits. Only behind a bias a NaN may have any.
void check_route(const Product& p, const Floats& expected, ExactRoute route) {
  if (!device().has_exact_route(route)) return;
  INFO(text(p, route));
  REQUIRE(!stops([&] { by_route(p, route); }));
  const Floats actual = by_route(p, route);
  std::int64_t different = -1;
  for (std::int64_t i = expected.size() - 1; i >= 0; --i) {
    if (p.has_bias && std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    if (std::memcmp(&expected[i], &actual[i], sizeof(float)) != 0) different = i;
  }
  CHECK(different == -1);
}
void check_routes(const Product& p) {
  const Floats expected = by_definition(p);
  for (const ExactRoute route : kRoutes) check_route(p, expected, route);
}

// 64 x 64 results; `a` and `b` make the numbers of row after row, and of column after column.
template <class A, class B>
Product one_tile(Arithmetic arithmetic, std::int64_t k, const A& a, const B& b) {
  const GemmShape s{
      .m = 64, .n = 64, .k = k, .a_row = k, .b_col = k, .c_row = 64, .arithmetic = arithmetic};
  return {s, 1, 0, 0, 64 * 64, Floats(64 * k, a), Floats(64 * k, b), Floats(64), false};
}

TEST_SUITE("gpu/cuda/exact") {
  TEST_CASE("every route has the bits of the definition, for any shape, stride and number") {
    Random random(test::seed("cuda exact routes"));
    for (int i = 0; i < 48; ++i)
      check_routes(random_product(random, random.integer(1, 150), random.integer(1, 140),
                                  random.integer(1, i % 4 == 0 ? 1300 : 200), random.integer(1, 3),
                                  kBoth[i % 2]));
  }

  TEST_CASE("every route computes tiles and chunks that are just full, and one more or less") {
    Random random(test::seed("cuda exact edges"));
    for (const Arithmetic arithmetic : kBoth)
      for (const auto& [m, n, k] :
           {std::tuple{64, 64, 64}, {65, 33, 512}, {128, 32, 513}, {129, 65, 64}, {63, 64, 1024}})
        check_routes(random_product(random, m, n, k, 1, arithmetic));
  }

  TEST_CASE("the largest integers of both signs fill a chunk on every route") {
    const auto largest = [] { return std::bit_cast<float>(0x3f7fffffu); };
    for (const Arithmetic arithmetic : kBoth) {
      check_routes(one_tile(arithmetic, 512, largest, largest));
      check_routes(one_tile(
          arithmetic, 512, [&] { return -largest(); }, largest));
    }
  }

  TEST_CASE("every route writes one zero and one NaN") {
    for (const Arithmetic arithmetic : kBoth) {
      // The result of each chunk is -0.
      check_routes(one_tile(
          arithmetic, 1024, [] { return 1e-30f; }, [] { return -1e-30f; }));
      // The result of the first chunk is infinite, and that of the second one is minus that.
      std::int64_t i = 0;
      check_routes(one_tile(
          arithmetic, 1024, [] { return 0x1p127f; },
          [&] { return i++ % 1024 < 512 ? 0x1p127f : -0x1p127f; }));
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
