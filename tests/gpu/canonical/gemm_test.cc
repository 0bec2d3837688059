#include <cmath>
#include <tuple>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

std::string text(const GemmShape& s) {
  return "gemm m=" + std::to_string(s.m) + " n=" + std::to_string(s.n) +
         " k=" + std::to_string(s.k) + " a_col=" + std::to_string(s.a_col) +
         " b_col=" + std::to_string(s.b_col) + " c_col=" + std::to_string(s.c_col);
}

std::vector<Floats> run(const KernelTable& table, const GemmShape& s, const Floats& a,
                        const Floats& b, const float* bias, std::int64_t c_size) {
  std::vector<Floats> out;
  out.emplace_back(c_size, [] { return 7.0f; });  // Gaps do not change.
  Floats ws = workspace(table.gemm_workspace_floats(s));
  table.gemm(s, a, b, bias, out[0], ws);
  return out;
}

void check_against_double(const GemmShape& s, const Floats& a, const Floats& b, const float* bias,
                          const Floats& c) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      Dot dot;
      for (std::int64_t k = 0; k < s.k; ++k) {
        dot.step(a[i * s.a_row + k * s.a_col], b[k * s.b_row + j * s.b_col]);
      }
      if (bias != nullptr) dot.step(bias[j], 1.0);
      check_near(c[i * s.c_row + j * s.c_col], dot.sum, dot.bound(), text(s));
    }
  }
}

void check_shape(Random& random, std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmShape s{.m = m, .n = n, .k = k};
  const Floats a = random.normals(layout(random, m, k, s.a_row, s.a_col));
  const Floats b = random.normals(layout(random, k, n, s.b_row, s.b_col));
  const std::int64_t c_size = layout(random, m, n, s.c_row, s.c_col);
  const Floats bias = random.normals(n);
  const float* bias_or_null = random.coin() ? bias.data() : nullptr;
  const auto out = same_in_all_classes(
      text(s), [&](const KernelTable& table) { return run(table, s, a, b, bias_or_null, c_size); });
  check_against_double(s, a, b, bias_or_null, out[0]);
}

// A product in two parts, of which the second adds its chunks to those of the first.
void check_parts(Random& random, std::int64_t m, std::int64_t n, std::int64_t first,
                 std::int64_t rest) {
  GemmShape s{.m = m, .n = n, .k = first + rest};
  const Floats a = random.normals(layout(random, m, s.k, s.a_row, s.a_col));
  const Floats b = random.normals(layout(random, s.k, n, s.b_row, s.b_col));
  const std::int64_t c_size = layout(random, m, n, s.c_row, s.c_col);
  const Floats bias = random.normals(n);
  const float* bias_or_null = random.coin() ? bias.data() : nullptr;
  std::vector<const KernelTable*> tables = vector_classes();
  tables.push_back(&reference());
  for (const KernelTable* table : tables) {
    const std::vector<Floats> whole = run(*table, s, a, b, bias_or_null, c_size);
    GemmShape part = s;
    part.k = first;
    const std::vector<Floats> sum = run(*table, part, a, b, nullptr, c_size);
    part.k = rest;
    part.add = true;
    table->gemm(part, a + first * s.a_col, b + first * s.b_row, bias_or_null, sum[0],
                workspace(table->gemm_workspace_floats(part)));
    CHECK_MESSAGE(sum[0].first_difference(whole[0]) == -1, text(s));
  }
}

// An operand in memory, and its numbers as a product reads them. They have magnitudes around
// 2^exponent, and every `zeros`-th of them is a zero of either sign.
struct Operand {
  Operand(Random& random, Factor stored, std::int64_t n, int exponent = 0, std::int64_t zeros = 0)
      : memory(stored == Factor::kBf16 ? (n + 1) / 2 : n), numbers(n) {
    for (std::int64_t i = 0; i < n; ++i) {
      float x = std::ldexp(random.normal(), exponent);
      if (zeros > 0 && i % zeros == 0) x *= 0.0f;
      if (stored == Factor::kBf16) {
        reinterpret_cast<Bf16*>(memory.data())[i] = narrowed(x);
      } else {
        memory[i] = x;
      }
      numbers[i] = read_number(stored, memory, i);
    }
  }
  Floats memory, numbers;
};

// A product that converts its operands has the bits of one that reads converted operands.
void check_stored(Random& random, GemmShape s, std::int64_t a_size, std::int64_t b_size,
                  std::int64_t c_size, int exponent = 0, std::int64_t zeros = 0) {
  constexpr Factor kAll[] = {Factor::kF32, Factor::kRounded, Factor::kBf16};
  GemmShape plain = s;
  s.a_stored = kAll[random.integer(0, 2)];
  s.b_stored = kAll[random.integer(s.a_stored == Factor::kF32 ? 1 : 0, 2)];
  const Operand a(random, s.a_stored, a_size, exponent, zeros);
  const Operand b(random, s.b_stored, b_size, exponent, zeros);
  const Floats bias = random.normals(s.n);
  const float* bias_or_null = random.coin() ? bias.data() : nullptr;
  const auto expected = run(reference(), plain, a.numbers, b.numbers, bias_or_null, c_size);
  const auto found =
      same_in_all_classes(text(s) + " stored " + std::to_string(int(s.a_stored)) + " and " +
                              std::to_string(int(s.b_stored)),
                          [&](const KernelTable& table) {
                            return run(table, s, a.memory, b.memory, bias_or_null, c_size);
                          });
  CHECK_MESSAGE(found[0].first_difference(expected[0]) == -1, text(s));
}

// Layouts of a linear layer: y = x W^T, dx = dy W, dW = dy^T x.
GemmShape linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows, .n = out, .k = in, .a_row = in, .b_row = 1, .b_col = in, .c_row = out};
}
GemmShape linear_dgrad(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows, .n = in, .k = out, .a_row = out, .b_row = in, .c_row = in};
}
GemmShape linear_wgrad(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = out, .n = in, .k = rows, .a_row = 1, .a_col = out, .b_row = in, .c_row = in};
}

// Compares only the classes with each other, for large shapes.
void check_classes(Random& random, const GemmShape& s, bool with_bias) {
  const Floats a = random.normals(s.m * s.k), b = random.normals(s.k * s.n);
  const Floats bias = random.normals(s.n);
  same_in_all_classes(text(s), [&](const KernelTable& table) {
    return run(table, s, a, b, with_bias ? bias.data() : nullptr, s.m * s.n);
  });
}

void check_linear(Random& random, std::int64_t rows, std::int64_t in, std::int64_t out) {
  check_classes(random, linear_forward(rows, in, out), true);
  check_classes(random, linear_dgrad(rows, in, out), false);
  check_classes(random, linear_wgrad(rows, in, out), false);
}

TEST_SUITE("gpu/canonical/gemm") {
  TEST_CASE("every class multiplies matrices of any shape and stride to the same bits") {
    Random random(test::seed("gemm"));
    for (int i = 0; i < 60; ++i) {
      check_shape(random, random.integer(1, 40), random.integer(1, 80), random.integer(1, 100));
    }
  }

  TEST_CASE("sums longer than a chunk of 512 agree, and so do more rows than a block holds") {
    Random random(test::seed("gemm chunks"));
    for (const std::int64_t k : {511, 512, 513, 1024, 1500}) {
      check_shape(random, random.integer(1, 30), random.integer(1, 40), k);
    }
    check_shape(random, 250, 37, 520);
    check_shape(random, 5, 1100, 530);
  }

  TEST_CASE("a product may add its chunks to those of an earlier one") {
    Random random(test::seed("gemm parts"));
    for (int i = 0; i < 30; ++i) {
      check_parts(random, random.integer(1, 40), random.integer(1, 80), 512 * random.integer(1, 2),
                  random.integer(1, 600));
    }
    check_parts(random, 9, 300, 512, 512);  // A narrow product.
    check_parts(random, 2050, 2064, 512, 3);
  }

  TEST_CASE("linear layers agree, also when a batch is small or an operand exceeds the caches") {
    Random random(test::seed("gemm linear"));
    check_linear(random, 8, 1700, 300);  // With few rows, weights are streamed.
    check_linear(random, 1, 517, 131);
    check_linear(random, 14, 90, 4200);
    check_linear(random, 15, 1100, 257);
    check_linear(random, 40, 1024, 70);    // The rows are a multiple of a page apart.
    check_linear(random, 300, 1100, 250);  // The operands are cut along K, along M and along N.
    check_linear(random, 1000, 300, 120);
    check_linear(random, 70, 650, 900);
    for (int i = 0; i < 6; ++i) {
      check_linear(random, random.integer(1, 14), random.integer(100, 900),
                   random.integer(100, 900));
    }
  }

  TEST_CASE("operands may be bf16, or rounded where they are read") {
    Random random(test::seed("gemm stored"));
    for (int i = 0; i < 100; ++i) {
      GemmShape s{.m = random.integer(1, 50), .n = random.integer(1, 90), .k = 1};
      s.k = random.integer(1, random.coin() ? 70 : 1100);
      const std::int64_t a = layout(random, s.m, s.k, s.a_row, s.a_col);
      const std::int64_t b = layout(random, s.k, s.n, s.b_row, s.b_col);
      check_stored(random, s, a, b, layout(random, s.m, s.n, s.c_row, s.c_col));
    }
    for (const auto& [rows, in, out] :
         {std::tuple{1, 517, 131}, {15, 1100, 257}, {300, 1100, 250}, {1000, 300, 120}})
      for (const GemmShape& s : {linear_forward(rows, in, out), linear_dgrad(rows, in, out),
                                 linear_wgrad(rows, in, out)})
        check_stored(random, s, s.m * s.k, s.k * s.n, s.m * s.n);
  }

  TEST_CASE("bf16 operands whose sums are subnormal, and those that are nearly so") {
    // Products are multiples of 2^(2 * exponent - 14 - r), where the smallest of the numbers is
    // 2^-r of the others: around an exponent of -45 some tiles may have subnormal sums.
    Random random(test::seed("gemm subnormal"));
    for (const int exponent : {-40, -44, -46, -48, -50, -55, -60, -65, -70, -130, 60, 70}) {
      for (int i = 0; i < 6; ++i) {
        GemmShape s{.m = random.integer(1, 50), .n = random.integer(1, 90)};
        s.k = random.integer(32, 1100);
        const std::int64_t a = layout(random, s.m, s.k, s.a_row, s.a_col);
        const std::int64_t b = layout(random, s.k, s.n, s.b_row, s.b_col);
        check_stored(random, s, a, b, layout(random, s.m, s.n, s.c_row, s.c_col), exponent,
                     random.integer(0, 3));
      }
    }
  }

  TEST_CASE("a sum of bf16 products that cancel to the smallest normal number, and below it") {
    // 129 * 129 - 128 * 130 = 1
    for (const int exponent : {-125, -126, -127, -128, -130, -149}) {
      const GemmShape s{.m = 1,
                        .n = 1,
                        .k = 32,
                        .a_row = 32,
                        .b_row = 1,
                        .c_row = 1,
                        .a_stored = Factor::kRounded,
                        .b_stored = Factor::kRounded};
      Floats a(s.k, [] { return 0.0f; }), b(s.k, [] { return 0.0f; });
      a[6] = std::ldexp(129.0f, exponent / 2);
      a[7] = std::ldexp(-128.0f, exponent / 2);
      b[6] = std::ldexp(129.0f, exponent - exponent / 2);
      b[7] = std::ldexp(130.0f, exponent - exponent / 2);
      same_in_all_classes("cancelling", [&](const KernelTable& table) {
        auto out = run(table, s, a, b, nullptr, 1);
        CHECK(out[0][0] == std::ldexp(1.0f, exponent));
        return out;
      });
    }
  }

  TEST_CASE("a result of few k that is larger than the caches") {
    Random random(test::seed("gemm large result"));
    check_classes(random, linear_wgrad(3, 2048, 2050), false);
    check_classes(random, linear_wgrad(2, 2050, 2064), false);
  }

  TEST_CASE("a bias belongs to the columns of C, in either order of storage") {
    Random random(test::seed("gemm bias"));
    for (const std::int64_t m : {7, 20, 70}) {
      GemmShape s = linear_forward(m, 600, 50);
      s.c_row = 1;
      s.c_col = m;
      check_classes(random, s, true);
    }
  }

  TEST_CASE("a chunk is one chain and chunk results are added in ascending order") {
    // Each chunk has one product. In a chunk of its own, 2^24 + 1 loses the 1, and added to -2^24
    // first it does not. The three chunk results must therefore be added from the left.
    const std::int64_t k = 3 * 512;
    Floats a(k, [] { return 0.0f; }), b(k, [] { return 1.0f; });
    a[0] = 0x1p24f;
    a[512] = -0x1p24f;
    a[1024] = 1.0f;
    const GemmShape s{.m = 1, .n = 1, .k = k, .a_row = k, .b_row = 1, .c_row = 1};
    CHECK(run(reference(), s, a, b, nullptr, 1)[0][0] == 1.0f);
    a[1] = 1.0f;  // It joins the chain of the first chunk, where it is lost.
    CHECK(run(reference(), s, a, b, nullptr, 1)[0][0] == 1.0f);
    a[1] = 0.0f;
    a[513] = 1.0f;  // It joins the second chain, where -2^24 + 1 is exact.
    CHECK(run(reference(), s, a, b, nullptr, 1)[0][0] == 2.0f);
  }

  TEST_CASE("a batch of products equals its products one by one") {
    Random random(test::seed("gemm batched"));
    for (int i = 0; i < 40; ++i) {
      GemmShape s{
          .m = random.integer(1, 70), .n = random.integer(1, 70), .k = random.integer(1, 70)};
      const std::int64_t count = random.integer(0, 5), gap = random.integer(0, 9);
      const std::int64_t a_step = layout(random, s.m, s.k, s.a_row, s.a_col) + gap;
      const std::int64_t b_step = layout(random, s.k, s.n, s.b_row, s.b_col) + gap;
      const std::int64_t c_step = layout(random, s.m, s.n, s.c_row, s.c_col) + gap;
      const Floats a = random.normals(count * a_step), b = random.normals(count * b_step);
      const auto sevens = [&] { return Floats(count * c_step, [] { return 7.0f; }); };
      const auto out = same_in_all_classes("batched " + text(s), [&](const KernelTable& table) {
        std::vector<Floats> results;
        results.push_back(sevens());
        Floats ws = workspace(table.gemm_workspace_floats(s));
        table.gemm_batched(s, count, a_step, b_step, c_step, a, b, results[0], ws);
        return results;
      });
      const Floats single = sevens();
      for (std::int64_t p = 0; p < count; ++p) {
        Floats ws = workspace(reference().gemm_workspace_floats(s));
        reference().gemm(s, a + p * a_step, b + p * b_step, nullptr, single + p * c_step, ws);
      }
      CHECK(out[0].first_difference(single) == -1);
    }
  }

  TEST_CASE("subnormal results are kept") {
    Floats a(1, [] { return 0x1p-100f; }), b(1, [] { return 0x1p-40f; });
    same_in_all_classes("subnormal", [&](const KernelTable& table) {
      auto out = run(table, GemmShape{}, a, b, nullptr, 1);
      CHECK(out[0][0] == 0x1p-140f);
      return out;
    });
  }
}

}  // namespace
}  // namespace es::gpu::testing
