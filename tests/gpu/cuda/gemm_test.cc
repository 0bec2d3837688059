#include "gpu/cuda/kernels/product_cut.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

using cuda::cut_product;

std::string text(const GemmShape& s, std::int64_t count) {
  return "gemm m=" + std::to_string(s.m) + " n=" + std::to_string(s.n) +
         " k=" + std::to_string(s.k) + " strides " + std::to_string(s.a_row) + "," +
         std::to_string(s.a_col) + " " + std::to_string(s.b_row) + "," + std::to_string(s.b_col) +
         " " + std::to_string(s.c_row) + "," + std::to_string(s.c_col) +
         " count=" + std::to_string(count);
}

struct Operands {
  std::int64_t count, a_step, b_step, c_step;
  Floats a, b, bias;
  bool has_bias;
};

void check(const GemmShape& s, const Operands& o) {
  const auto sevens = [&] { return Floats(o.count * o.c_step, [] { return 7.0f; }); };
  const float* bias = o.has_bias ? o.bias.data() : nullptr;
  std::vector<Floats> expected, actual;
  expected.push_back(sevens());  // Gaps do not change.
  for (std::int64_t i = 0; i < o.count; ++i) {
    Floats ws = workspace(reference().gemm_workspace_floats(s));
    reference().gemm(s, o.a + i * o.a_step, o.b + i * o.b_step, bias, expected[0] + i * o.c_step,
                     ws);
  }
  actual.push_back(sevens());
  Floats ws = workspace(device().gemm_workspace_floats(s, o.count));
  device().gemm(kStream, s, o.count, o.a_step, o.b_step, o.c_step, o.a, o.b, bias, actual[0], ws);
  check_same(text(s, o.count), expected, actual);
}

void check_any_layout(Random& random, std::int64_t m, std::int64_t n, std::int64_t k,
                      std::int64_t count, Arithmetic arithmetic = Arithmetic::kFp32) {
  GemmShape s{.m = m, .n = n, .k = k, .arithmetic = arithmetic};
  s.add = random.coin();  // to what C contains at the start
  const std::int64_t gap = random.integer(0, 5);
  const std::int64_t a_step = layout(random, m, k, s.a_row, s.a_col) + gap;
  const std::int64_t b_step = layout(random, k, n, s.b_row, s.b_col) + gap;
  const std::int64_t c_step = layout(random, m, n, s.c_row, s.c_col) + gap;
  check(s, {count, a_step, b_step, c_step, mixed(random, count * a_step),
            mixed(random, count * b_step), random.normals(n), random.coin()});
}

// Small products whose operands overlap, so that many products need few numbers.
void check_overlapping(Random& random, std::int64_t count, std::int64_t chunks_at_once,
                       std::int64_t k) {
  const GemmShape s{
      .m = 5, .n = 9, .k = k, .a_col = 5, .b_row = 9, .c_row = 9, .add = random.coin()};
  CHECK(cut_product({.m = s.m, .n = s.n, .k = s.k, .count = count}, false).at_once ==
        chunks_at_once);
  check(s, {count, 3, 7, s.m * s.n, mixed(random, s.m * s.k + 3 * count),
            mixed(random, s.k * s.n + 7 * count), random.normals(s.n), true});
}

// Layouts of a linear layer: y = x W^T, dx = dy W, dW = dy^T x.
void check_linear(Random& random, std::int64_t rows, std::int64_t in, std::int64_t out) {
  const GemmShape shapes[] = {
      {.m = rows, .n = out, .k = in, .a_row = in, .b_row = 1, .b_col = in, .c_row = out},
      {.m = rows, .n = in, .k = out, .a_row = out, .b_row = in, .c_row = in},
      {.m = out, .n = in, .k = rows, .a_row = 1, .a_col = out, .b_row = in, .c_row = in}};
  for (const GemmShape& s : shapes) {
    check(s, {1, 0, 0, s.m * s.n, mixed(random, s.m * s.k), mixed(random, s.k * s.n),
              random.normals(s.n), random.coin()});
  }
}

// A large product: all of it on the device, and every `step`-th row with the slow reference. Each
// tile of 128 results a side contains such rows.
void check_some_rows(Random& random, const GemmShape& s, std::int64_t step) {
  const Floats a = mixed(random, s.m * s.k), b = mixed(random, s.k * s.n),
               bias = random.normals(s.n);
  Floats c(s.m * s.n), ws = workspace(device().gemm_workspace_floats(s, 1));
  device().gemm(kStream, s, 1, 0, 0, 0, a, b, bias, c, ws);
  const std::int64_t first = random.integer(0, step - 1);
  GemmShape some = s;
  some.m = (s.m - first + step - 1) / step;
  some.a_row *= step;
  std::vector<Floats> expected = outputs({some.m * s.n}), actual;
  reference().gemm(some, a + first * s.a_row, b, bias, expected[0],
                   workspace(reference().gemm_workspace_floats(some)));
  finish();
  actual.emplace_back(some.m * s.n, [&, at = std::int64_t{0}]() mutable {
    const std::int64_t row = first + at / s.n * step, col = at % s.n;
    ++at;
    return c[row * s.c_row + col];
  });
  check_same(text(s, 1) + " from row " + std::to_string(first), expected, actual);
}

TEST_SUITE("gpu/cuda/gemm") {
  TEST_CASE("matrices of any shape and stride, alone and in batches") {
    Random random(test::seed("cuda gemm"));
    for (int i = 0; i < 60; ++i) {
      check_any_layout(random, random.integer(1, 100), random.integer(1, 100),
                       random.integer(1, 70), random.integer(1, 4));
    }
  }

  TEST_CASE("exact products, alone and in batches") {
    Random random(test::seed("cuda exact"));
    for (int i = 0; i < 40; ++i)
      check_any_layout(random, random.integer(1, 30), random.integer(1, 30),
                       random.integer(1, i % 4 == 0 ? 1100 : 70), random.integer(1, 4),
                       i % 2 == 0 ? Arithmetic::kX15 : Arithmetic::kX22);
  }

  TEST_CASE("sums longer than a chunk of 512, in one block and in several at the same time") {
    Random random(test::seed("cuda gemm chunks"));
    for (const std::int64_t k : {511, 512, 513, 1024, 1500}) {
      check_any_layout(random, random.integer(1, 40), random.integer(1, 40), k, 2);
    }
    // There are enough products without parallel chunks, or fewer products with more chunks than
    // are computed at the same time.
    check_overlapping(random, 1100, 0, 520);
    check_overlapping(random, 1000, 3, 3 * 512 + 9);
  }

  TEST_CASE("linear layers, on each size of tile") {
    Random random(test::seed("cuda gemm linear"));
    check_linear(random, 8, 300, 170);
    check_linear(random, 1, 517, 131);
    check_linear(random, 300, 64, 100);
    check_linear(random, 700, 96, 600);
    CHECK(cut_product({.m = 1496, .n = 1484, .k = 12}, true).side == 128);
    check_linear(random, 1496, 12, 1484);
    check_linear(random, 1495, 13, 1483);  // On smaller tiles, because rows are not aligned.
  }

  TEST_CASE("the largest tile, with parallel chunks") {
    Random random(test::seed("cuda gemm parallel chunks"));
    const std::int64_t side = 128, k = 67'600;
    const cuda::ProductCut cut = cut_product({.m = side, .n = side, .k = k}, true);
    CHECK(cut.side == 128);
    CHECK(cut.at_once == 133);
    // Operands with neighbouring k, and with neighbouring rows.
    check_some_rows(random, {.m = side, .n = side, .k = k, .a_row = k, .b_col = k, .c_row = side},
                    2);
    check_some_rows(random,
                    {.m = side, .n = side, .k = k, .a_col = side, .b_row = side, .c_row = side}, 2);
  }

  TEST_CASE("the largest tile, with chunks in sequence, of which the last is short") {
    Random random(test::seed("cuda gemm chunks in turn"));
    const std::int64_t m = 2048, n = 2176;
    for (const std::int64_t k : {1030, 516}) {
      const cuda::ProductCut cut = cut_product({.m = m, .n = n, .k = k}, true);
      CHECK(cut.side == 128);
      CHECK(cut.at_once == 0);
    }
    check_some_rows(random, {.m = m, .n = n, .k = 1030, .a_col = m, .b_row = n, .c_row = n}, 16);
    check_some_rows(random, {.m = m, .n = n, .k = 516, .a_row = 516, .b_row = n, .c_row = n}, 16);
  }

  TEST_CASE("chunk results are added from the left") {
    // 2^24 + 1 loses the 1 unless 2^24 - 2^24 is computed first.
    const std::int64_t k = 3 * 512;
    Floats a(k, [] { return 0.0f; }), b(k, [] { return 1.0f; });
    a[0] = 0x1p24f;
    a[512] = -0x1p24f;
    a[1024] = 1.0f;
    Floats c(1);
    const GemmShape s{.k = k, .a_row = k, .b_row = 1};
    Floats ws = workspace(device().gemm_workspace_floats(s, 1));
    device().gemm(kStream, s, 1, 0, 0, 0, a, b, nullptr, c, ws);
    finish();
    CHECK(c[0] == 1.0f);
  }

  TEST_CASE("a product of underflows is +0, as without the k that fill a tile up") {
    Floats a(3, [] { return -0x1p-100f; }), b(3, [] { return 0x1p-100f; });
    const GemmShape s{.k = 3, .a_row = 3, .b_row = 1};
    check(s, {1, 0, 0, 1, copy(a), copy(b), Floats(1), false});
  }
}

}  // namespace
}  // namespace es::gpu::testing
