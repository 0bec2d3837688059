#include <cmath>
#include <cstring>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

// Every element-wise kernel over the same inputs.
std::vector<Floats> run(const KernelTable& t, const Floats& a, const Floats& b) {
  const std::int64_t n = a.size();
  std::vector<Floats> out;
  t.relu_fwd(n, a, out.emplace_back(n));
  t.relu_bwd(n, a, b, out.emplace_back(n));
  t.add(n, a, b, out.emplace_back(n));
  t.add_relu(n, a, b, out.emplace_back(n));
  t.scale(n, a, 0.3f, out.emplace_back(n));
  return out;
}

TEST_SUITE("gpu/canonical/elementwise") {
  TEST_CASE("element-wise kernels have the same bits in every class for every length") {
    Random random(test::seed("elementwise"));
    for (std::int64_t n = 1; n < 80; ++n) {
      const Floats a = random.normals(n), b = random.normals(n);
      const auto out = same_in_all_classes("n=" + std::to_string(n),
                                           [&](const KernelTable& t) { return run(t, a, b); });
      for (std::int64_t i = 0; i < n; ++i) {
        CHECK(out[0][i] == std::max(0.0f, a[i]));
        CHECK(out[1][i] == (a[i] > 0 ? b[i] : 0.0f));
        CHECK(out[2][i] == a[i] + b[i]);
        CHECK(out[3][i] == std::max(0.0f, a[i] + b[i]));
        CHECK(out[4][i] == a[i] * 0.3f);
      }
    }
  }

  TEST_CASE("relu of a NaN, of minus zero and of the smallest subnormal") {
    const float nan = std::nanf("");
    const float x[] = {nan, -0.0f, 0.0f, 0x1p-149f, -0x1p-149f, INFINITY, -INFINITY};
    const float expected[] = {nan, 0.0f, 0.0f, 0x1p-149f, 0.0f, INFINITY, 0.0f};
    const Floats a(7, [p = x]() mutable { return *p++; });
    const auto out = same_in_all_classes("special values", [&](const KernelTable& t) {
      std::vector<Floats> result;
      t.relu_fwd(7, a, result.emplace_back(7));
      return result;
    });
    CHECK(std::isnan(out[0][0]));
    CHECK(std::memcmp(out[0] + 1, expected + 1, sizeof expected - sizeof nan) == 0);
  }

  TEST_CASE("outputs may be the inputs") {
    Random random(test::seed("in place"));
    const Floats a = random.normals(37), b = random.normals(37);
    const auto apart = run(reference(), a, b);
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    for (const KernelTable* t : tables) {
      Floats y(37, [p = a.data()]() mutable { return *p++; });
      t->add_relu(37, y, b, y);
      CHECK(y.first_difference(apart[3]) == -1);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
