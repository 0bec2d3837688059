// Integers of 64 bits beside those of the processor, in every kernel class.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "gpu/graph/fuse.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/import/longs") {
  using namespace es::gpu;
  using es::ModelProgram;
  using es::ValueId;
  using es::test::ProgramWriter;
  using es::test::StepRig;

  constexpr std::int64_t kBatch = 5, kColumns = 4;
  constexpr std::int64_t kPiece = 1 << 16;
  const std::vector<std::int64_t> kAxes{0, 1};

  ValueId long_constant(ProgramWriter & w, std::int64_t value) {
    w.program.values.push_back({es::ValueType::kI64, {}});
    const auto id = static_cast<ValueId>(w.program.values.size() - 1);
    const auto bits = static_cast<std::uint64_t>(value);
    w.program.constants.push_back(
        {.name = "constant" + std::to_string(id),
         .value = id,
         .words = {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)}});
    return id;
  }

  // A model whose outputs are the 16-bit pieces of x, which fp32 has exactly.
  ModelProgram pieces_of(ProgramWriter & w, ValueId x, ValueId f) {
    for (int i = 0; i < 4; ++i) {
      const ValueId piece = w.node("remainder", {x, long_constant(w, kPiece)});
      w.output("piece" + std::to_string(i), w.node("cast", {piece}, {{"to", "f32"}}));
      x = w.node("floor_div", {x, long_constant(w, kPiece)});
    }
    w.program.loss =
        w.node("mean", {w.node("mul", {f, w.parameter("p", {kColumns})})}, {{"axes", kAxes}});
    w.program.format = es::kModelFormatWithLongs;
    return w.program;
  }

  std::int64_t joined(const std::array<float, 4>& pieces) {
    std::uint64_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 16 | static_cast<std::uint64_t>(pieces[i]);
    return static_cast<std::int64_t>(value);
  }

  struct Pair {
    std::int64_t a, b;
  };
  using Function = std::function<std::int64_t(Pair)>;

  std::int64_t wrapped(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
  }
  std::uint64_t bits(std::int64_t value) {
    return static_cast<std::uint64_t>(value);
  }
  std::int64_t floored(std::int64_t a, std::int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }

  // Builds the program and gives what an element must be.
  struct Case {
    const char* name;
    std::function<ValueId(ProgramWriter&, ValueId, ValueId)> write;
    Function expected;
  };

  std::vector<Case> cases() {
    std::vector<Case> all;
    const auto binary = [&](const char* kind, Function f) {
      all.push_back({kind,
                     [kind](ProgramWriter& w, ValueId a, ValueId b) {
                       return w.node(kind, {a, b});
                     },
                     std::move(f)});
    };
    binary("add", [](Pair p) { return wrapped(bits(p.a) + bits(p.b)); });
    binary("sub", [](Pair p) { return wrapped(bits(p.a) - bits(p.b)); });
    binary("mul", [](Pair p) { return wrapped(bits(p.a) * bits(p.b)); });
    binary("maximum", [](Pair p) { return std::max(p.a, p.b); });
    binary("minimum", [](Pair p) { return std::min(p.a, p.b); });
    binary("bit_and", [](Pair p) { return p.a & p.b; });
    binary("bit_or", [](Pair p) { return p.a | p.b; });
    binary("bit_xor", [](Pair p) { return p.a ^ p.b; });
    binary("floor_div", [](Pair p) { return floored(p.a, p.b); });
    binary("remainder", [](Pair p) { return p.a - floored(p.a, p.b) * p.b; });
    for (const auto& [kind, holds] : std::initializer_list<std::pair<const char*, bool (*)(Pair)>>{
             {"eq", [](Pair p) { return p.a == p.b; }},
             {"ne", [](Pair p) { return p.a != p.b; }},
             {"lt", [](Pair p) { return p.a < p.b; }},
             {"le", [](Pair p) { return p.a <= p.b; }},
             {"gt", [](Pair p) { return p.a > p.b; }},
             {"ge", [](Pair p) { return p.a >= p.b; }}})
      all.push_back({kind,
                     [kind](ProgramWriter& w, ValueId a, ValueId b) {
                       return w.node("where", {w.node(kind, {a, b}), a, b});
                     },
                     [holds](Pair p) { return holds(p) ? p.a : p.b; }});
    for (const std::int64_t places : {0, 5, 31, 32, 63})
      for (const bool left : {true, false})
        all.push_back(
            {left ? "shift_left" : "shift_right",
             [=](ProgramWriter& w, ValueId a, ValueId) {
               return w.node(left ? "shift_left" : "shift_right", {a, long_constant(w, places)});
             },
             [=](Pair p) { return left ? wrapped(bits(p.a) << places) : p.a >> places; }});
    return all;
  }

  // 64 bits of a sample, from integers of 32.
  ValueId long_input(ProgramWriter & w, const char* name) {
    const ValueId ids = w.ids(name, {kColumns}, INT32_MAX);
    w.program.inputs.back().low = INT32_MIN;
    const ValueId x = w.node("cast", {ids}, {{"to", "i64"}});
    return w.node("add", {w.node("mul", {x, long_constant(w, 0x1'0000'0007)}),
                          long_constant(w, -123'456'789'012'345)});
  }
  std::int64_t value_of(float word) {
    return wrapped(bits(std::bit_cast<std::int32_t>(word)) * 0x1'0000'0007 - 123'456'789'012'345);
  }

  TEST_CASE("operations have the integers of the processor in every class") {
    for (const Case& c : cases()) {
      INFO(c.name);
      ProgramWriter w;
      const ValueId f = w.input("f", {kColumns});
      const ValueId a = long_input(w, "a"), b = long_input(w, "b");
      const ModelProgram program = pieces_of(w, c.write(w, a, b), f);
      const es::Status checked = check_program(program);
      REQUIRE_MESSAGE(checked.ok(), (checked.ok() ? "" : checked.error().message));
      const es::Result<Graph> graph = import_model(program, kBatch);
      REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
      for (const es::CpuClass cpu_class : es::supported_cpu_classes()) {
        StepRig rig(compile(*graph), es::test::seed("longs"), {.cpu_class = cpu_class});
        REQUIRE(rig.executor->run_eval(rig.params.data(), rig.input(), nullptr).ok());
        for (std::size_t i = 0; i < std::size_t{kBatch * kColumns}; ++i) {
          const float* words = rig.words.data() + kBatch * kColumns;
          const Pair pair{value_of(words[i]), value_of(words[kBatch * kColumns + i])};
          std::array<float, 4> pieces;
          for (std::size_t k = 0; k < 4; ++k)
            pieces[k] = rig.executor->values(rig.graph().outputs[k])[i];
          REQUIRE(joined(pieces) == c.expected(pair));
        }
      }
    }
  }

  // Whether the step of a model ends where `write` makes f32 numbers [B,4] of the samples.
  bool refuses(const std::function<ValueId(ProgramWriter&, ValueId, ValueId)>& write) {
    ProgramWriter w;
    const ValueId f = w.input("f", {kColumns}), ids = w.ids("ids", {kColumns}, 9);
    const ValueId y = w.node("cast", {write(w, f, ids)}, {{"to", "f32"}});
    w.output("y", y);
    w.program.loss =
        w.node("mean", {w.node("mul", {y, w.parameter("p", {kColumns})})}, {{"axes", kAxes}});
    w.program.format = es::kModelFormatWithLongs;
    REQUIRE(check_program(w.program).ok());
    const es::Result<Graph> graph = import_model(w.program, kBatch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    StepRig rig(compile(*graph), es::test::seed("refused"));
    return std::isnan(rig.run());
  }

  TEST_CASE("what PyTorch does not define ends the step, and nothing else does") {
    const auto cast = [](double factor) {
      return [=](ProgramWriter& w, ValueId f, ValueId) {
        return w.node("cast", {w.node("mul_scalar", {f}, {{"value", factor}})}, {{"to", "i64"}});
      };
    };
    CHECK_FALSE(refuses(cast(9e18)));
    CHECK(refuses(cast(1e30)));
    const auto divided = [](const char* kind, std::int64_t by) {
      return [=](ProgramWriter& w, ValueId, ValueId ids) {
        const ValueId wide = w.node("cast", {ids}, {{"to", "i64"}});
        return w.node(kind, {wide, w.node("sub", {wide, long_constant(w, by)})});
      };
    };
    for (const char* kind : {"floor_div", "remainder"}) {
      CHECK_FALSE(refuses(divided(kind, 10)));  // no id is 10
      CHECK_FALSE(refuses(divided(kind, -1)));
    }
    CHECK(refuses([](ProgramWriter& w, ValueId, ValueId ids) {
      return w.node("remainder", {ids, w.node("sub", {ids, ids})});
    }));
    const auto narrow = [](std::int64_t high) {
      return [=](ProgramWriter& w, ValueId, ValueId ids) {
        return w.node("narrow", {w.node("cast", {ids}, {{"to", "i64"}})},
                      {{"low", std::int64_t{0}}, {"high", high}});
      };
    };
    CHECK_FALSE(refuses(narrow(9)));
    CHECK(refuses(narrow(0)));
  }

  TEST_CASE("a remainder selects rows") {
    ProgramWriter w;
    const ValueId f = w.input("f", {kColumns}), a = long_input(w, "a");
    const ValueId place = w.node("remainder", {a, long_constant(w, 7)});
    const ValueId row = w.node("cast", {place}, {{"to", "i32"}});
    const ValueId taken = w.node("take_rows", {w.parameter("table", {7}), row});
    w.output("y", w.node("mul", {f, taken}));
    w.program.loss = w.node("mean", {w.program.outputs[0].value}, {{"axes", kAxes}});
    w.program.format = es::kModelFormatWithLongs;
    REQUIRE(check_program(w.program).ok());
    const es::Result<Graph> graph = import_model(w.program, kBatch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    StepRig rig(compile(*graph), es::test::seed("rows"));
    const std::vector<float> y = rig.evaluate();
    for (std::size_t i = 0; i < std::size_t{kBatch * kColumns}; ++i) {
      const std::int64_t v = value_of(rig.words[std::size_t{kBatch * kColumns} + i]);
      CHECK(y[i] == rig.words[i] * rig.params.data()[v - floored(v, 7) * 7]);
    }
  }

  TEST_CASE("a file with integers of 64 bits has the third format") {
    ProgramWriter w;
    const ValueId f = w.input("f", {kColumns});
    ModelProgram program = pieces_of(w, long_input(w, "a"), f);
    CHECK(check_program(program).ok());
    program.format = es::kModelFormat;
    CHECK(check_program(program).error().message ==
          "format = 1: allowed is 3 for a model with integers of 64 bits or their kinds");
  }
}
