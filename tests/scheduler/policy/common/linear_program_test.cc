#include "scheduler/policy/common/linear_program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

using doctest::Approx;
using Term = LinearProgram::Term;
using Numbers = std::vector<double>;

// A program as a table: rows of factors.
struct Table {
  Numbers objectives, uppers;  // by column
  std::vector<Numbers> rows;
  Numbers limits;  // of the rows

  LinearProgram program() const {
    LinearProgram program;
    for (std::size_t c = 0; c < objectives.size(); ++c)
      program.add_column(objectives[c], uppers[c]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<Term> terms;
      for (std::size_t c = 0; c < objectives.size(); ++c)
        if (rows[r][c] != 0) terms.push_back({c, rows[r][c]});
      program.add_row(limits[r], terms);
    }
    return program;
  }

  double value(const Numbers& x) const {
    return std::inner_product(x.begin(), x.end(), objectives.begin(), 0.0);
  }

  bool allows(const Numbers& x) const {
    constexpr double kRounding = 1e-6;
    for (std::size_t c = 0; c < x.size(); ++c)
      if (!(x[c] >= -kRounding && x[c] <= uppers[c] + kRounding)) return false;
    for (std::size_t r = 0; r < rows.size(); ++r)
      if (std::inner_product(x.begin(), x.end(), rows[r].begin(), 0.0) > limits[r] + kRounding)
        return false;
    return true;
  }
};

// The point in which these equations of two unknowns meet, if it is only one.
std::optional<Numbers> meeting(const Numbers& a, double p, const Numbers& b, double q) {
  const double determinant = a[0] * b[1] - a[1] * b[0];
  if (std::abs(determinant) < 1e-9) return std::nullopt;
  return Numbers{(p * b[1] - q * a[1]) / determinant, (a[0] * q - b[0] * p) / determinant};
}

// The best value of a program of two columns: that of its best corner.
double best_corner(const Table& table) {
  std::vector<std::pair<Numbers, double>> lines{
      {{1, 0}, 0}, {{0, 1}, 0}, {{1, 0}, table.uppers[0]}, {{0, 1}, table.uppers[1]}};
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    lines.emplace_back(table.rows[r], table.limits[r]);
  double best = 0;
  for (const auto& [a, p] : lines)
    for (const auto& [b, q] : lines)
      if (const auto x = meeting(a, p, b, q); x && table.allows(*x))
        best = std::max(best, table.value(*x));
  return best;
}

// The best value of whole numbers, by trying all of them.
double best_whole(const Table& table, Numbers x = {}) {
  if (x.size() == table.objectives.size()) return table.allows(x) ? table.value(x) : 0;
  double best = 0;
  for (double value = 0; value <= table.uppers[x.size()]; ++value) {
    Numbers longer = x;
    longer.push_back(value);
    best = std::max(best, best_whole(table, std::move(longer)));
  }
  return best;
}

std::vector<std::uint64_t> bits_of(const Numbers& x) {
  std::vector<std::uint64_t> bits;
  for (const double value : x) bits.push_back(std::bit_cast<std::uint64_t>(value));
  return bits;
}

class Draw {
 public:
  explicit Draw(const char* name) : random_(test::seed(name)) {}
  int whole(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1));
  }
  double real(double high) { return high * static_cast<double>(random_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 random_;
};

// Gives each of n workers a task of n: the best sum over all permutations, as a linear program
// whose corners are all degenerate and whole.
Table permutations(Draw& draw, std::size_t n) {
  Table table;
  for (std::size_t i = 0; i < n * n; ++i) {
    table.objectives.push_back(draw.whole(1, 20));
    table.uppers.push_back(1);
  }
  for (std::size_t i = 0; i < n; ++i) {
    Numbers worker(n * n, 0), task(n * n, 0);
    for (std::size_t j = 0; j < n; ++j) worker[i * n + j] = task[j * n + i] = 1;
    table.rows.insert(table.rows.end(), {worker, task});
    table.limits.insert(table.limits.end(), {1, 1});
  }
  return table;
}

// Jobs that share devices of several types, and the least share is what counts: the program of
// Gavel.
Table shares(Draw& draw, int jobs, int types) {
  const auto columns = static_cast<std::size_t>(1 + jobs * types);
  Table table;
  table.objectives.assign(columns, 0);
  table.objectives[0] = 1;
  table.uppers.assign(columns, 1);
  table.uppers[0] = 5;
  std::vector<Numbers> used(static_cast<std::size_t>(types), Numbers(columns, 0));
  for (int job = 0; job < jobs; ++job) {
    Numbers worth(columns, 0), time(columns, 0);
    worth[0] = 1;
    for (int type = 0; type < types; ++type) {
      const auto column = static_cast<std::size_t>(1 + job * types + type);
      worth[column] = -(1 + draw.real(4));
      time[column] = 1;
      used[static_cast<std::size_t>(type)][column] = 1 << draw.whole(0, 3);
    }
    table.rows.insert(table.rows.end(), {worth, time});
    table.limits.insert(table.limits.end(), {0, 1});
  }
  for (const Numbers& row : used) {
    table.rows.push_back(row);
    table.limits.push_back(jobs);
  }
  return table;
}

}  // namespace

TEST_SUITE("scheduler/policy/linear_program") {
  TEST_CASE("a linear program has the optimum of the textbook") {
    // maximise 3x + 5y where x <= 4, 2y <= 12, 3x + 2y <= 18: x = 2, y = 6.
    const Table table{{3, 5}, {4, 1e6}, {{0, 2}, {3, 2}}, {12, 18}};
    const Numbers x = table.program().solve();
    CHECK(x[0] == Approx(2));
    CHECK(x[1] == Approx(6));
  }

  TEST_CASE("a program without rows, or without columns, is solved") {
    CHECK(Table{{1, -1}, {3, 3}, {}, {}}.program().solve() == Numbers{3, 0});
    CHECK(Table{{1, -1}, {3, 3}, {}, {}}.program().solve_integer(0, 9) == Numbers{3, 0});
    CHECK(Table{{}, {}, {}, {}}.program().solve().empty());
    CHECK(Table{{}, {}, {{}}, {1}}.program().solve().empty());
  }

  TEST_CASE("a program in which some methods go in a circle ends at its optimum") {
    // Beale's: 1/20 at x = (1/25, 0, 1, 0).
    const Table table{{0.75, -150, 0.02, -6},
                      {1e3, 1e3, 1e3, 1e3},
                      {{0.25, -60, -0.04, 9}, {0.5, -90, -0.02, 3}, {0, 0, 1, 0}},
                      {0, 0, 1}};
    CHECK(table.value(table.program().solve()) == Approx(0.05).epsilon(1e-7));
  }

  TEST_CASE("a distorted cube with 2^12 corners is solved") {
    // Klee and Minty: maximise sum 2^(n-i) x_i; the last corner is (0, ..., 0, 5^n).
    constexpr std::size_t kSize = 12;
    Table table;
    for (std::size_t i = 0; i < kSize; ++i) {
      table.objectives.push_back(std::exp2(kSize - 1 - i));
      table.uppers.push_back(std::pow(5, i + 1));
      Numbers row(kSize, 0);
      for (std::size_t j = 0; j < i; ++j) row[j] = std::exp2(i - j + 1);
      row[i] = 1;
      table.rows.push_back(row);
      table.limits.push_back(std::pow(5, i + 1));
    }
    CHECK(table.value(table.program().solve()) == Approx(std::pow(5, kSize)).epsilon(1e-9));
  }

  TEST_CASE("programs of two columns have the value of their best corner") {
    Draw draw("corners");
    for (int i = 0; i < 1000; ++i) {
      Table table{{draw.whole(-3, 9) / 1.0, draw.real(9)}, {draw.real(5), draw.real(5)}, {}, {}};
      for (int r = draw.whole(0, 4); r > 0; --r) {
        table.rows.push_back({draw.whole(-4, 8) / 1.0, draw.whole(-4, 8) / 1.0});
        table.limits.push_back(draw.whole(0, 9));
      }
      const Numbers x = table.program().solve();
      CHECK(table.allows(x));
      CHECK(table.value(x) == Approx(best_corner(table)).epsilon(1e-7));
    }
  }

  TEST_CASE("degenerate programs have the best permutation, in whole numbers") {
    Draw draw("permutations");
    for (std::size_t n = 1; n <= 6; ++n)
      for (int i = 0; i < 20; ++i) {
        const Table table = permutations(draw, n);
        std::vector<std::size_t> order(n);
        std::iota(order.begin(), order.end(), 0U);
        double best = 0;
        do {
          double sum = 0;
          for (std::size_t k = 0; k < n; ++k) sum += table.objectives[k * n + order[k]];
          best = std::max(best, sum);
        } while (std::next_permutation(order.begin(), order.end()));
        const Numbers x = table.program().solve();
        CHECK(table.allows(x));
        CHECK(table.value(x) == Approx(best).epsilon(1e-7));
        CHECK(table.value(table.program().solve_integer(0, 1)) == best);
      }
  }

  TEST_CASE("integer programs have the value that trying everything finds") {
    Draw draw("whole numbers");
    for (int i = 0; i < 300; ++i) {
      Table table;
      for (int c = draw.whole(1, 4); c > 0; --c) {
        table.objectives.push_back(draw.whole(1, 30) / 10.0);
        table.uppers.push_back(draw.whole(0, 3));
      }
      // Also factors below 0, so that rounding down may break a row.
      for (int r = draw.whole(1, 3); r > 0; --r) {
        table.rows.emplace_back();
        for (std::size_t c = 0; c < table.objectives.size(); ++c)
          table.rows.back().push_back(draw.whole(-2, 7));
        table.limits.push_back(draw.whole(0, 12));
      }
      const Numbers x = table.program().solve_integer(0, 1000);
      CHECK(table.allows(x));
      for (const double value : x) CHECK(value == std::round(value));
      CHECK(table.value(x) == Approx(best_whole(table)));
    }
  }

  TEST_CASE("a search that may visit few nodes, or none, gives whole numbers that are allowed") {
    // 15 coins that fit in no way exactly.
    Table table{Numbers(15, 0), Numbers(15, 1), {Numbers(15, 0)}, {101}};
    for (std::size_t c = 0; c < 15; ++c)
      table.objectives[c] = table.rows[0][c] = 14 + 2 * static_cast<double>(c % 7);
    CHECK(table.program().solve_integer(0, 0) == Numbers(15, 0));
    for (const int nodes : {1, 2, 5, 20}) {
      const Numbers x = table.program().solve_integer(0, nodes);
      CHECK(table.allows(x));
      CHECK(table.value(x) >= 75);  // less than one coin is missing
    }
  }

  TEST_CASE("the same calls give the same bits") {
    Draw draw("repeated");
    for (int i = 0; i < 5; ++i) {
      const Table table = shares(draw, 40, 3);
      const LinearProgram program = table.program();
      const Numbers x = program.solve();
      CHECK(table.allows(x));
      CHECK(x[0] > 0);
      CHECK(bits_of(x) == bits_of(program.solve()));
      CHECK(bits_of(x) == bits_of(table.program().solve()));
      const Table whole = permutations(draw, 12);
      CHECK(bits_of(whole.program().solve_integer(1e-4, 100)) ==
            bits_of(whole.program().solve_integer(1e-4, 100)));
    }
  }
}

}  // namespace es::scheduler
