// Exact products (G1X): golden hashes of the definition, and the same bits in every kernel class.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>

#include "gpu/canonical/exact_math.h"
#include "proto/base/digest.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

constexpr Arithmetic kBoth[] = {Arithmetic::kX15, Arithmetic::kX22};

std::string text(const GemmShape& s) {
  return (s.arithmetic == Arithmetic::kX15 ? "x15 m=" : "x22 m=") + std::to_string(s.m) +
         " n=" + std::to_string(s.n) + " k=" + std::to_string(s.k) + " a " +
         std::to_string(s.a_row) + "," + std::to_string(s.a_col) + " b " + std::to_string(s.b_row) +
         "," + std::to_string(s.b_col) + " c " + std::to_string(s.c_row) + "," +
         std::to_string(s.c_col) + " stored " + std::to_string(int(s.a_stored)) + "," +
         std::to_string(int(s.b_stored));
}

// --- Numbers. They depend on no library, so that the golden hashes do not either.

class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint32_t word() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  // A number of either sign, 2^low <= |x| < 2^(high + 1).
  float between(int low, int high) {
    const auto exponent =
        static_cast<std::uint32_t>(low) + word() % static_cast<std::uint32_t>(high - low + 1);
    return std::bit_cast<float>((word() & 0x807fffffu) | ((exponent + 127) << 23));
  }

 private:
  std::uint64_t state_;
};

// What the numbers of an operand are like.
enum class Family { kPlain, kWide, kSmall, kLarge, kFull, kSpecial, kInteger };
constexpr int kFamilies = 7;

float number(Numbers& from, Family family) {
  switch (family) {
    case Family::kPlain:
      return from.between(-3, 1);
    case Family::kWide:  // most numbers of a chunk become small integers or 0
      return from.between(-30, 5);
    case Family::kSmall:  // around the least exponent, and subnormal numbers
      return from.word() % 3 == 0 ? std::bit_cast<float>(from.word() & 0x807fffffu)
                                  : from.between(-126, -95);
    case Family::kLarge:
      return from.between(60, 127);
    case Family::kFull:  // magnitudes just below a power of two reach the limit of the integers
      return std::bit_cast<float>(0x3f7fffffu | (from.word() & 0x80000000u));
    case Family::kSpecial: {
      const std::uint32_t kind = from.word() % 4000;
      if (kind == 0) return std::bit_cast<float>(0x7f800000u | (from.word() & 0x80000000u));
      if (kind == 1) return std::bit_cast<float>(0xffc12345u);
      return kind < 400 ? std::bit_cast<float>(from.word() & 0x80000000u) : from.between(-4, 4);
    }
    case Family::kInteger:  // halves, which are ties
      return static_cast<float>(static_cast<std::int32_t>(from.word() % 2001) - 1000) * 0.5f;
  }
  return 0.0f;
}

// Returns the memory of `count` numbers that are stored in a certain way.
Floats operand(Numbers& from, Family family, Factor stored, std::int64_t count) {
  Floats memory(stored == Factor::kBf16 ? (count + 1) / 2 : count);
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = number(from, family);
    if (stored == Factor::kBf16) {
      reinterpret_cast<Bf16*>(memory.data())[i] = narrowed(x);
    } else {
      memory[i] = x;
    }
  }
  return memory;
}

std::vector<Floats> run(const KernelTable& table, const GemmShape& s, const Floats& a,
                        const Floats& b, const float* bias, std::int64_t c_size) {
  std::vector<Floats> out;
  out.emplace_back(c_size, [] { return 7.0f; });  // Gaps do not change.
  table.gemm(s, a, b, bias, out[0], workspace(table.gemm_workspace_floats(s)));
  return out;
}

// Row-major with contiguous rows.
GemmShape plain(Arithmetic arithmetic, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.m = m, .n = n, .k = k, .a_row = k, .b_row = n, .c_row = n, .arithmetic = arithmetic};
}

// The results of one row of A with one column of B.
float dot(Arithmetic arithmetic, std::vector<float> a, std::vector<float> b) {
  const GemmShape s = plain(arithmetic, 1, 1, static_cast<std::int64_t>(a.size()));
  float c = 0;
  reference().gemm(s, a.data(), b.data(), nullptr, &c,
                   workspace(reference().gemm_workspace_floats(s)));
  return c;
}

struct Golden {
  std::int64_t m, n, k;
  Family a, b;
  const char *x15, *x22;  // digests of C
};

using enum Family;
constexpr Golden kGolden[] = {
    {3, 5, 7, kPlain, kPlain, "60b398b90675756b0dc954c3cd25e55c",
     "b1154e3ef6a9c0759e45c864b0a478b1"},
    {17, 9, 64, kPlain, kWide, "fa28052979714f37403487397d45e83a",
     "700d569e9b178b3c9aab8d52494fdd8b"},
    {4, 33, 511, kWide, kWide, "49f90b772a49f438a8d153c0e5df946d",
     "96d30a27f2f767140719f7398070fb01"},
    {5, 5, 512, kFull, kFull, "b5e491a6b391a857214c84ea39f91298",
     "d1c0af7c75b41bbb295f3d2406c2073d"},
    {8, 3, 513, kFull, kPlain, "65c32369556d0cbb96c659aa371b0015",
     "b730a71c19ea3b06ee48d07d2ca9b51a"},
    {2, 21, 1100, kInteger, kInteger, "b4f84f990f2a49d32f9873c9d50cab3a",
     "b4f84f990f2a49d32f9873c9d50cab3a"},
    {16, 16, 1536, kPlain, kPlain, "a0aaad80ba7f35e584cb59a135111a73",
     "1ba0241bb84441e37c45c7fdcc855912"},
    {7, 6, 90, kSmall, kPlain, "71f4df20279e8ade3b9b4e5d968b9ffe",
     "fe85c1cd68efcb2ff6abec855e078881"},
    {7, 6, 600, kSmall, kSmall, "452065223af9d08f6fd7a8c78c6efbd5",
     "452065223af9d08f6fd7a8c78c6efbd5"},
    {6, 7, 300, kSmall, kLarge, "de3f76e00f7414293f756078f456f8c8",
     "c65e2fdb19c768fe97b30bbb8fb13b28"},
    {6, 7, 30, kLarge, kPlain, "2c2576d9c79bdc53e5176fb95985ea6b",
     "2c2576d9c79bdc53e5176fb95985ea6b"},
    {9, 9, 40, kLarge, kLarge, "ab3b27a9ec6cce1c82f7cb86413c87ad",
     "67fc94b8d4d77d6d229e0be8e5ef790f"},
    {31, 2, 700, kSpecial, kPlain, "61e88a0c64304031b39456421d3c9499",
     "5a2d5edb8f9e43f234528b777320038e"},
    {2, 31, 700, kPlain, kSpecial, "4ddd6e78c598920cea753da4128b68b6",
     "2e09f5053572b2a464eabc7f54227425"},
    {12, 13, 150, kSpecial, kSpecial, "64ef79a5fb3e8fe0f6c6b4839c2208bd",
     "c58e3067dfa52900c9f5f5771d8e0cd3"},
    {1, 1, 1, kPlain, kPlain, "b6cfdff5222a683f1c71ffd4552f8ad8",
     "fc675042440517c19561bceb2730c5e0"},
    {1, 50, 2600, kWide, kPlain, "2ce0bd49c8e411bda8908fc9ad333f58",
     "777c16d65b01a1a1dca68a16be0a6afc"},
    {50, 1, 2000, kPlain, kInteger, "7f70a8abff151d93f9fa0f3e332c3eae",
     "84d1863be4ecb048fb29a8c242b30594"},
    {20, 20, 20, kWide, kSmall, "61995a8aa66f5030ebc00ef78ed19dfa",
     "8fd5186b8e6ebde72b1a1dfb2f9d55a6"},
    {11, 14, 1025, kInteger, kWide, "907378438eabd99d8e968d14fe36fafb",
     "d2f29e6289513f372c8569ecbdd1f5e1"},
};

std::string golden_digest(const Golden& g, Arithmetic arithmetic) {
  Numbers numbers(static_cast<std::uint64_t>(&g - kGolden) + 1);
  const Floats a = operand(numbers, g.a, Factor::kF32, g.m * g.k);
  const Floats b = operand(numbers, g.b, Factor::kF32, g.k * g.n);
  const auto c = run(reference(), plain(arithmetic, g.m, g.n, g.k), a, b, nullptr, g.m * g.n);
  return digest_of(std::as_bytes(std::span(c[0].data(), static_cast<std::size_t>(g.m * g.n))))
      .hex();
}

TEST_SUITE("gpu/canonical/exact") {
  TEST_CASE("the definition of exact products has its golden hashes") {
    for (const Golden& g : kGolden) {
      CAPTURE(&g - kGolden);
      CHECK(golden_digest(g, Arithmetic::kX15) == g.x15);
      CHECK(golden_digest(g, Arithmetic::kX22) == g.x22);
    }
  }

  TEST_CASE("every class multiplies exactly to the same bits, whatever the operands are") {
    Random random(test::seed("exact"));
    Numbers numbers(static_cast<std::uint64_t>(random.integer(1, 1'000'000'000)));
    constexpr Factor kAll[] = {Factor::kF32, Factor::kRounded, Factor::kBf16};
    for (int i = 0; i < 400; ++i) {
      GemmShape s{.m = random.integer(1, 50),
                  .n = random.integer(1, 90),
                  .k = random.integer(1, random.coin() ? 70 : 1100),
                  .add = random.integer(0, 3) == 0,
                  .a_stored = kAll[random.integer(0, 2)],
                  .b_stored = kAll[random.integer(0, 2)],
                  .arithmetic = kBoth[i % 2]};
      const auto family = [&] { return static_cast<Family>(random.integer(0, kFamilies - 1)); };
      const Floats a =
          operand(numbers, family(), s.a_stored, layout(random, s.m, s.k, s.a_row, s.a_col));
      const Floats b =
          operand(numbers, family(), s.b_stored, layout(random, s.k, s.n, s.b_row, s.b_col));
      const std::int64_t c = layout(random, s.m, s.n, s.c_row, s.c_col);
      const Floats bias = random.normals(s.n);
      const float* bias_or_null = random.coin() ? bias.data() : nullptr;
      same_in_all_classes(
          text(s), [&](const KernelTable& table) { return run(table, s, a, b, bias_or_null, c); });
    }
  }

  TEST_CASE("exact products of more columns than a block has, and of many chunks") {
    Random random(test::seed("exact large"));
    Numbers numbers(5);
    for (const Arithmetic arithmetic : kBoth)
      for (const auto& [m, n, k] : {std::tuple{20, 1100, 700}, {150, 70, 2100}, {1, 600, 1024}}) {
        GemmShape s = plain(arithmetic, m, n, k);
        if (random.coin()) std::swap(s.b_row, s.b_col);
        s.b_col = s.b_row == 1 ? k : 1;
        const Floats a = operand(numbers, kPlain, Factor::kF32, m * k);
        const Floats b = operand(numbers, kFull, Factor::kF32, k * n);
        same_in_all_classes(
            text(s), [&](const KernelTable& table) { return run(table, s, a, b, nullptr, m * n); });
      }
  }

  TEST_CASE("the largest sums of a chunk are exact in every class") {
    // 512 products of the largest integers with equal signs.
    for (const Arithmetic arithmetic : kBoth) {
      const GemmShape s = plain(arithmetic, 9, 18, 512);
      const Floats a(s.m * s.k, [] { return std::bit_cast<float>(0x3f7fffffu); });
      const Floats b(s.k * s.n, [] { return -std::bit_cast<float>(0x3f7fffffu); });
      const auto c = same_in_all_classes(text(s), [&](const KernelTable& table) {
        return run(table, s, a, b, nullptr, s.m * s.n);
      });
      const double most = std::ldexp(1.0, integer_bits(arithmetic)) - 1;
      const auto sum = static_cast<float>(-512 * most * most);
      CHECK(c[0][0] == std::ldexp(sum, -2 * integer_bits(arithmetic)));
    }
  }

  TEST_CASE("an exact product may add its chunks to those of an earlier one") {
    Random random(test::seed("exact parts"));
    Numbers numbers(9);
    for (int i = 0; i < 20; ++i) {
      const GemmShape s = plain(kBoth[i % 2], random.integer(1, 30), random.integer(1, 60),
                                512 + random.integer(1, 600));
      const Floats a = operand(numbers, kWide, Factor::kF32, s.m * s.k);
      const Floats b = operand(numbers, kPlain, Factor::kF32, s.k * s.n);
      std::vector<const KernelTable*> tables = vector_classes();
      tables.push_back(&reference());
      for (const KernelTable* table : tables) {
        const auto whole = run(*table, s, a, b, nullptr, s.m * s.n);
        GemmShape part = s;
        part.k = 512;
        const auto sum = run(*table, part, a, b, nullptr, s.m * s.n);
        part.k = s.k - 512;
        part.add = true;
        table->gemm(part, a + 512, b + 512 * s.b_row, nullptr, sum[0],
                    workspace(table->gemm_workspace_floats(part)));
        CHECK_MESSAGE(sum[0].first_difference(whole[0]) == -1, text(s));
      }
    }
  }

  TEST_CASE("a batch of exact products equals its products one by one") {
    Random random(test::seed("exact batched"));
    Numbers numbers(11);
    for (int i = 0; i < 20; ++i) {
      const GemmShape s =
          plain(kBoth[i % 2], random.integer(1, 40), random.integer(1, 40), random.integer(1, 90));
      const std::int64_t count = random.integer(0, 5);
      const Floats a = operand(numbers, kPlain, Factor::kF32, count * s.m * s.k);
      const Floats b = operand(numbers, kPlain, Factor::kF32, count * s.k * s.n);
      const auto all = same_in_all_classes(text(s), [&](const KernelTable& table) {
        std::vector<Floats> c;
        c.emplace_back(count * s.m * s.n);
        table.gemm_batched(s, count, s.m * s.k, s.k * s.n, s.m * s.n, a, b, c[0],
                           workspace(table.gemm_workspace_floats(s)));
        return c;
      });
      Floats single(count * s.m * s.n);
      for (std::int64_t p = 0; p < count; ++p)
        reference().gemm(s, a + p * s.m * s.k, b + p * s.k * s.n, nullptr, single + p * s.m * s.n,
                         workspace(reference().gemm_workspace_floats(s)));
      CHECK(all[0].first_difference(single) == -1);
    }
  }

  TEST_CASE("the order of the k of a chunk decides no bit") {
    Random random(test::seed("exact order"));
    for (const Arithmetic arithmetic : kBoth) {
      std::vector<float> a(512), b(512);
      for (float& x : a) x = random.normal();
      for (float& x : b) x = random.normal();
      std::vector<std::size_t> order(512);
      std::iota(order.begin(), order.end(), std::size_t{0});
      random.shuffle(order);
      std::vector<float> c(512), d(512);
      for (std::size_t k = 0; k < 512; ++k) {
        c[k] = a[order[k]];
        d[k] = b[order[k]];
      }
      CHECK(dot(arithmetic, a, b) == dot(arithmetic, c, d));
      for (float& x : c) x = -x;
      CHECK(dot(arithmetic, c, d) == -dot(arithmetic, a, b));
    }
  }

  TEST_CASE("the worked exact product of docs/ARITHMETIC.md") {
    const float a[] = {0.2f, 0.7f}, b[] = {0.9f, 0.1f};
    constexpr Arithmetic kX15 = Arithmetic::kX15, kX22 = Arithmetic::kX22;
    const auto integers = [](Arithmetic arithmetic, const float(&x)[2]) {
      const float largest = std::max(x[0], x[1]);
      const ExactScale scale = exact_scale(arithmetic, magnitude_bits(largest));
      CHECK(scale.scale == std::ldexp(1.0f, -integer_bits(arithmetic)));
      return std::vector{exact_integer(arithmetic, x[0], scale),
                         exact_integer(arithmetic, x[1], scale)};
    };
    CHECK(integers(kX15, a) == std::vector{6554.0f, 22938.0f});
    CHECK(integers(kX15, b) == std::vector{29491.0f, 3277.0f});
    CHECK(integers(kX22, a) == std::vector{838861.0f, 2936013.0f});
    CHECK(integers(kX22, b) == std::vector{3774874.0f, 419430.0f});
    const auto bits = [&](Arithmetic arithmetic) {
      return std::bit_cast<std::uint32_t>(dot(arithmetic, {a[0], a[1]}, {b[0], b[1]}));
    };
    CHECK(bits(kX15) == 0x3e800200u);
    CHECK(bits(kX22) == 0x3e800000u);
  }

  TEST_CASE(
      "a number that is not finite makes the results of its row or column NaN, with one pattern") {
    for (const Arithmetic arithmetic : kBoth) {
      const GemmShape s = plain(arithmetic, 4, 20, 600);
      for (const float wrong : {INFINITY, -INFINITY, std::bit_cast<float>(0xffc12345u)}) {
        const Floats a(s.m * s.k, [] { return 1.0f; }), b(s.k * s.n, [] { return 2.0f; });
        a[2 * s.k + 590] = wrong;
        const auto c = same_in_all_classes(text(s), [&](const KernelTable& table) {
          return run(table, s, a, b, nullptr, s.m * s.n);
        });
        for (std::int64_t i = 0; i < s.m * s.n; ++i)
          CHECK(std::bit_cast<std::uint32_t>(c[0][i]) ==
                (i / s.n == 2 ? 0x7fc00000u : std::bit_cast<std::uint32_t>(1200.0f)));
      }
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
