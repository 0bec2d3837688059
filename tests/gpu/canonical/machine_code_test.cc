// Machine code of element-wise programs has the bits of the scalar kernel.
#include <cstring>

#include "gpu/machine_code/tile_code.h"
#include "tests/gpu/canonical/random_program.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

using enum ElementOp;
constexpr ElementOp kTranslated[] = {
    kCopy, kAdd,   kSub,   kMul,   kDiv,      kFma,  kMax,       kMin, kNegate, kAbs, kSign,
    kSqrt, kFloor, kRound, kEqual, kNotEqual, kLess, kLessEqual, kAnd, kOr,     kNot, kSelect};
constexpr std::int64_t kMany = 1 << 20;  // elements for which machine code is always worth it

std::vector<Floats> run(const KernelTable& t, TileCode machine_code, const RandomProgram& p,
                        std::int64_t begin, std::int64_t end) {
  std::vector<Floats> out;
  std::vector<float*> addresses;
  for (std::int32_t k = 0; k < p.code.outputs; ++k) out.emplace_back(p.count);
  for (const Floats& y : out) addresses.push_back(y);
  t.program(p.code, machine_code, p.space, p.in().data(), addresses.data(), begin, end);
  unify_nans(out);
  return out;
}

// Whether this build and processor have machine code of a class.
bool has_machine_code(const KernelTable& t) {
  ElementCode copy{.inputs = 1, .instructions = 1, .outputs = 1};
  copy.instruction[0] = {kCopy, 0, kFirstInput, kFirstInput, kFirstInput, kFirstInput};
  return tile_code(copy, t.cpu_class, kMany) != nullptr;
}

void check_equal(const std::vector<Floats>& actual, const std::vector<Floats>& expected) {
  for (std::size_t k = 0; k < expected.size(); ++k)
    REQUIRE(actual[k].first_difference(expected[k]) == -1);
}

TEST_SUITE("gpu/machine_code") {
  TEST_CASE("any translated program over any range has the bits of the scalar kernel") {
    Random random(test::seed("machine code"));
    for (const KernelTable* t : vector_classes()) {
      if (!has_machine_code(*t)) {
        MESSAGE("skipped: no compiler of machine code for this class in this build");
        continue;
      }
      int translated = 0;
      for (int trial = 0; trial < 1500; ++trial) {
        const RandomProgram p = random_program(random, random.coin() ? 60 : 6000, kTranslated);
        const TileCode code = tile_code(p.code, t->cpu_class, kMany);
        if (code == nullptr) continue;  // AVX2 has too few registers for some
        ++translated;
        const std::int64_t begin = random.integer(0, p.count), end = random.integer(begin, p.count);
        INFO("program ", trial);
        check_equal(run(*t, code, p, begin, end), run(reference(), nullptr, p, begin, end));
      }
      CHECK(translated > 200);
    }
  }

  TEST_CASE("programs that differ in constants only share their machine code") {
    Random random(test::seed("constants of machine code"));
    for (const KernelTable* t : vector_classes()) {
      if (!has_machine_code(*t)) continue;
      RandomProgram p;
      p.code = {.inputs = 1, .constants = 1, .instructions = 1, .outputs = 1};
      p.code.instruction[0] = {kMul, 0, kFirstInput, kFirstConstant, kFirstInput, kFirstInput};
      p.space.rank = 1;
      p.count = p.space.size[0] = 5000;
      for (auto& stride : p.space.stride) stride[0] = 1;
      p.inputs.push_back(random.normals(p.count));
      const TileCode code = tile_code(p.code, t->cpu_class, p.count);
      REQUIRE(bool(code));
      for (const float factor : {2.0F, -0.5F}) {
        p.code.constant[0] = factor;
        CHECK(bool(tile_code(p.code, t->cpu_class, p.count) == code));
        check_equal(run(*t, code, p, 0, p.count), run(reference(), nullptr, p, 0, p.count));
      }
    }
  }

  TEST_CASE("every output may take the memory of an input") {
    Random random(test::seed("machine code in place"));
    for (const KernelTable* t : vector_classes()) {
      if (!has_machine_code(*t)) continue;
      RandomProgram p;
      p.code = {.inputs = 2, .instructions = 2, .outputs = 2};
      p.code.instruction[0] = {kAdd, 0, kFirstInput, kFirstInput + 1, kFirstInput, kFirstInput};
      p.code.instruction[1] = {kSub, 1, kFirstInput, kFirstInput + 1, kFirstInput, kFirstInput};
      p.code.result = {0, 1};
      p.space.rank = 1;
      p.count = p.space.size[0] = 5003;
      for (auto& stride : p.space.stride) stride[0] = 1;
      for (int k = 0; k < 2; ++k) p.inputs.push_back(random.normals(p.count));
      const auto apart = run(reference(), nullptr, p, 0, p.count);
      float* out[] = {p.inputs[1], p.inputs[0]};
      t->program(p.code, tile_code(p.code, t->cpu_class, p.count), p.space, p.in().data(), out, 0,
                 p.count);
      CHECK(p.inputs[1].first_difference(apart[0]) == -1);
      CHECK(p.inputs[0].first_difference(apart[1]) == -1);
    }
  }

  TEST_CASE("functions, integers and few elements have no machine code") {
    for (const KernelTable* t : vector_classes()) {
      ElementCode code{.inputs = 1, .instructions = 1, .outputs = 1};
      for (const ElementOp op : {kExp, kAddInt}) {
        code.instruction[0] = {op, 0, kFirstInput, kFirstInput, kFirstInput, kFirstInput};
        CHECK(!bool(tile_code(code, t->cpu_class, kMany)));
      }
      code.instruction[0].op = kCopy;
      CHECK(!bool(tile_code(code, t->cpu_class, 100)));
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
