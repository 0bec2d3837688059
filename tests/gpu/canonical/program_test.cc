#include <cstring>

#include "tests/gpu/canonical/random_program.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

std::vector<Floats> run(const KernelTable& t, const RandomProgram& p, std::int64_t begin,
                        std::int64_t end) {
  std::vector<Floats> out;
  std::vector<float*> addresses;
  for (std::int32_t k = 0; k < p.code.outputs; ++k) out.emplace_back(p.count);
  for (const Floats& y : out) addresses.push_back(y);
  t.program(p.code, nullptr, p.space, p.in().data(), addresses.data(), begin, end);
  return out;
}
std::vector<Floats> run_without_nan_bits(const KernelTable& t, const RandomProgram& p,
                                         std::int64_t begin, std::int64_t end) {
  std::vector<Floats> out = run(t, p, begin, end);
  unify_nans(out);
  return out;
}

// One instruction over the elements of dense inputs.
RandomProgram single(ElementOp op, std::int64_t n) {
  RandomProgram p;
  p.code.inputs = operands_of(op);
  p.code.instructions = p.code.outputs = 1;
  const auto operand = [&](int k) {
    return static_cast<std::uint8_t>(kFirstInput + std::min(k, operands_of(op) - 1));
  };
  p.code.instruction[0] = {op, 0, operand(0), operand(1), operand(2), operand(3)};
  p.count = p.space.size[0] = n;
  p.space.rank = 1;
  for (auto& stride : p.space.stride) stride[0] = 1;
  return p;
}

TEST_SUITE("gpu/canonical/program") {
  TEST_CASE("any program over any range has the same bits in every class") {
    Random random(test::seed("programs"));
    for (int trial = 0; trial < 1500; ++trial) {
      const RandomProgram p = random_program(random, random.coin() ? 60 : 6000);
      const std::int64_t begin = random.integer(0, p.count), end = random.integer(begin, p.count);
      INFO("program ", trial);
      const auto part = same_in_all_classes(
          "program", [&](const KernelTable& t) { return run_without_nan_bits(t, p, begin, end); });
      const auto whole = run_without_nan_bits(reference(), p, 0, p.count);
      for (std::size_t k = 0; k < part.size(); ++k) {
        for (std::int64_t i = 0; i < p.count; ++i) {
          const float expected = i < begin || i >= end ? NAN : whole[k][i];
          REQUIRE(std::memcmp(&part[k].data()[i], &expected, sizeof(float)) == 0);
        }
      }
    }
  }

  TEST_CASE("every instruction has the same bits in every class for all kinds of floats") {
    Random random(test::seed("instructions"));
    constexpr std::int64_t kCount = 100'000;
    for (std::size_t i = 0; i < kElementOps; ++i) {
      RandomProgram p = single(static_cast<ElementOp>(i), kCount);
      for (std::int32_t k = 0; k < p.code.inputs; ++k)
        p.inputs.emplace_back(kCount, [&] { return any_float(random); });
      same_in_all_classes("instruction " + std::to_string(i), [&](const KernelTable& t) {
        // Integers have no undefined bits.
        return p.code.instruction[0].op >= ElementOp::kAddInt
                   ? run(t, p, 0, kCount)
                   : run_without_nan_bits(t, p, 0, kCount);
      });
    }
  }

  TEST_CASE("the only output may take the memory of an input that is read in order") {
    Random random(test::seed("program in place"));
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    for (const KernelTable* t : tables) {
      RandomProgram p = single(ElementOp::kFma, 2500);
      p.code.instructions = 2;
      p.code.instruction[1] = {ElementOp::kMul, 1, 0, kFirstInput, kFirstInput};
      p.code.result[0] = 1;
      for (int k = 0; k < 3; ++k) p.inputs.push_back(random.normals(p.count));
      const auto apart = run(*t, p, 0, p.count);
      float* out[] = {p.inputs[0]};
      t->program(p.code, nullptr, p.space, p.in().data(), out, 0, p.count);
      CHECK(p.inputs[0].first_difference(apart[0]) == -1);
    }
  }

  float result(ElementOp op, float a, float b = 0.0f, float c = 0.0f, float d = 0.0f) {
    RandomProgram p = single(op, 1);
    for (const float x : {a, b, c, d}) p.inputs.emplace_back(1, [=] { return x; });
    return run(reference(), p, 0, 1)[0][0];
  }
  bool is(float actual, float expected) {
    return std::bit_cast<std::uint32_t>(actual) == std::bit_cast<std::uint32_t>(expected);
  }
  float word(std::int32_t v) {
    return std::bit_cast<float>(v);
  }

  TEST_CASE("instructions on special values") {
    using enum ElementOp;
    for (const ElementOp op : {kMax, kMin}) {
      CHECK(std::isnan(result(op, NAN, 1.0f)));
      CHECK(std::isnan(result(op, 1.0f, NAN)));
      CHECK(is(result(op, 0.0f, -0.0f), -0.0f));
      CHECK(is(result(op, -0.0f, 0.0f), 0.0f));
    }
    CHECK(result(kMax, 1.0f, 2.0f) == 2.0f);
    CHECK(result(kMin, 1.0f, 2.0f) == 1.0f);
    CHECK(is(result(kSign, -0.0f), -0.0f));
    CHECK(std::isnan(result(kSign, NAN)));
    CHECK(result(kSign, -3.0f) == -1.0f);
    CHECK(is(result(kFloor, -0.0f), -0.0f));
    CHECK(result(kFloor, -0.5f) == -1.0f);
    CHECK(result(kFloor, 0x1p30f) == 0x1p30f);
    CHECK(is(result(kRound, -0.5f), -0.0f));
    CHECK(result(kRound, 2.5f) == 2.0f);
    CHECK(result(kRound, 3.5f) == 4.0f);
    CHECK(result(kRound, -INFINITY) == -INFINITY);
    for (const ElementOp op : {kEqual, kLess, kLessEqual}) CHECK(is(result(op, NAN, NAN), 0.0f));
    CHECK(result(kNotEqual, NAN, NAN) == 1.0f);
    CHECK(result(kEqual, 0.0f, -0.0f) == 1.0f);
    CHECK(result(kAnd, NAN, 2.0f) == 1.0f);
    CHECK(is(result(kAnd, -0.0f, 1.0f), 0.0f));
    CHECK(result(kOr, 0.0f, -3.0f) == 1.0f);
    CHECK(result(kNot, -0.0f) == 1.0f);
    CHECK(result(kSelect, NAN, 1.0f, 2.0f) == 1.0f);
    CHECK(result(kSelect, -0.0f, 1.0f, 2.0f) == 2.0f);
    CHECK(is(result(kToInt, NAN), word(0)));
    CHECK(is(result(kToInt, -2.9f), word(-2)));
    CHECK(is(result(kToInt, 3e9f), word(INT32_MAX)));
    CHECK(is(result(kToInt, -INFINITY), word(INT32_MIN)));
    CHECK(result(kFromInt, word(16777217)) == 16777216.0f);
    CHECK(is(result(kAddInt, word(INT32_MAX), word(1)), word(INT32_MIN)));
    CHECK(is(result(kMulInt, word(-3), word(1 << 30)), word(1 << 30)));
    CHECK(result(kLessInt, word(-1), word(0)) == 1.0f);
  }
}

}  // namespace
}  // namespace es::gpu::testing
