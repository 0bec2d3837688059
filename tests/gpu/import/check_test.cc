// Programs from outside: every violation has a text of its own, and no damage ends the process.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <random>

#include "gpu/graph/fuse.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "tests/gpu/import/program_cases.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/import/check") {
  using namespace es::gpu;
  using es::ModelProgram;
  using es::ValueType;
  using es::test::ProgramWriter;
  using Ints = std::vector<std::int64_t>;

  // nodes: 0 conv, 1 batch_norm, 2 relu, 3 mean, 4 linear, 5 cross_entropy
  ModelProgram small_program() {
    ProgramWriter w;
    const es::ValueId image = w.input("image", {3, 8, 8}), label = w.ids("label", {}, 9);
    const es::ValueId x = w.node("relu", {w.batch_norm("bn", w.conv("conv", image, 4, 3, 1, 1))});
    w.classify(w.linear("fc", w.node("mean", {x}, {{"axes", Ints{2, 3}}, {"keepdim", false}}), 10),
               label);
    w.program.buffers.push_back({"steps", "I64", {}, std::vector<std::uint8_t>(8)});
    return w.program;
  }

  std::string error_of(const std::function<void(ModelProgram&)>& damage) {
    ModelProgram program = small_program();
    REQUIRE(check_program(program).ok());
    damage(program);
    const es::Status status = check_program(program);
    return status.ok() ? "" : status.error().message;
  }

  TEST_CASE("a violation is reported with the path of the field and what is allowed") {
    CHECK(error_of([](auto& p) { p.format = 2; }) ==
          "format = 2: allowed is 1 for a model without states");
    CHECK(error_of([](auto& p) { p.values[0].dims.resize(9); }) ==
          "values[0].dims has 9 extents: allowed are at most 8");
    CHECK(error_of([](auto& p) { p.values[0].dims[1].size = 0; }) ==
          "values[0].dims[1].size = 0: allowed is 1 to 2^40");
    CHECK(error_of([](auto& p) {
            for (std::size_t d = 1; d < 4; ++d) p.values[0].dims[d].size = std::int64_t{1} << 39;
          }) == "values[0] has more than 2^40 elements at batch size 2");
    CHECK(error_of([](auto& p) { p.nodes[2].inputs[0] = 99; }) ==
          "nodes[2].inputs[0] = 99: allowed is a value that an earlier node writes");
    CHECK(error_of([](auto& p) { p.nodes[0].inputs[0] = p.nodes[4].outputs[0]; }) ==
          "nodes[0].inputs[0] = 11: allowed is a value that an earlier node writes");
    CHECK(error_of([](auto& p) { p.nodes[2].outputs[0] = p.nodes[1].outputs[0]; }) ==
          "nodes[2].outputs[0] = 6: the value is written twice");
    CHECK(error_of([](auto& p) { p.inputs[0].value = -5; }) ==
          "inputs[0].value = -5: allowed is 0 to 12");
    CHECK(error_of([](auto& p) { p.loss = 77; }) ==
          "loss = 77: allowed is a value that an earlier node writes");
    CHECK(error_of([](auto& p) { p.loss = p.nodes[4].outputs[0]; }) ==
          "loss = 11: the value is no single number: allowed is f32 without extents");
    CHECK(error_of([](auto& p) {
            for (auto& parameter : p.parameters) parameter.trainable = false;
          }) == "loss = 12: it depends on no parameter that is trained");
  }

  TEST_CASE("names are unique, short and UTF-8") {
    CHECK(error_of([](auto& p) { p.parameters[1].name = p.parameters[0].name; }) ==
          "parameters[1].name = \"conv.weight\" is used twice");
    CHECK(error_of([](auto& p) { p.parameters[1].aliases = {"conv.weight"}; }) ==
          "parameters[1].aliases[0] = \"conv.weight\" is used twice");
    CHECK(error_of([](auto& p) { p.buffers[0].name = "bn.weight"; }) ==
          "buffers[0].name = \"bn.weight\" is used twice");
    CHECK(error_of([](auto& p) { p.inputs[1].name = ""; }) == "inputs[1].name is empty");
    CHECK(error_of([](auto& p) { p.nodes[3].name = std::string(600, 'a'); }) ==
          "nodes[3].name has 600 bytes: allowed are at most 512");
    CHECK(error_of([](auto& p) { p.name = "\xff"; }) == "name = \"\\xff\" is not UTF-8");
  }

  TEST_CASE("inputs, statistics, buffers, constants and outputs are checked") {
    CHECK(error_of([](auto& p) {
            p.values[0].dims[0] = {4, false};
          }) == "inputs[0].value = 0: its extents must be 1 per batch, then those of a sample");
    CHECK(error_of([](auto& p) { p.inputs[1].low = 10; }) ==
          "inputs[1].low = 10: allowed is at most high = 9");
    CHECK(error_of([](auto& p) { p.statistics[1].is_variance = false; }) ==
          "nodes[1].attributes \"variance\" = 1: the statistic is a mean of 4 channels, but x is "
          "[2,4,8,8]");
    CHECK(error_of([](auto& p) { p.nodes[1].attributes[2].value = std::int64_t{9}; }) ==
          "nodes[1].attributes \"mean\" = 9: allowed is an index of statistics, 0 to 1");
    CHECK(error_of([](auto& p) {
            p.statistics.push_back({"more", 4, false});
          }) == "statistics[2] is used by no node: allowed is 1 or more");
    CHECK(error_of([](auto& p) {
            p.statistics.push_back({"more", 4, true});
            es::ModelNode other = p.nodes[1];
            other.attributes[3].value = std::int64_t{2};
            p.values.push_back(p.values[static_cast<std::size_t>(other.outputs[0])]);
            other.outputs[0] = static_cast<es::ValueId>(p.values.size() - 1);
            p.nodes.push_back(other);
          }) == "nodes[6].attributes: statistics 0 and 2 belong to another node together with 1");
    CHECK(
        error_of([](auto& p) { p.buffers[0].dtype = "F8"; }) ==
        "buffers[0].dtype = \"F8\": allowed are BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64");
    CHECK(error_of([](auto& p) { p.buffers[0].bytes.pop_back(); }) ==
          "buffers[0].bytes has 7 bytes: allowed are 8 for its shape");
    CHECK(error_of([](auto& p) { p.outputs[0].value = 1; }) ==
          "outputs[0].value = 1: allowed is f32 whose first extent is per batch");
    CHECK(error_of([](auto& p) { p.outputs.clear(); }) ==
          "outputs is empty: an evaluation needs at least one");
    CHECK(error_of([](auto& p) {
            p.values.push_back({ValueType::kF32, {{3, false}}});
            p.constants.push_back({"c", static_cast<es::ValueId>(p.values.size() - 1), {1, 2}});
          }) == "constants[0].words has 2 words: allowed are 3 for f32 [3]");
  }

  // small_program() with a state [4] to which every step adds 1: nodes 6 add_scalar, 7 set_state
  std::string error_of_state(const std::function<void(ModelProgram&)>& damage) {
    return error_of([&](ModelProgram& p) {
      ProgramWriter w;
      w.program = p;
      const es::ValueId before = w.state("bn.count", {4});
      w.node("set_state", {w.node("add_scalar", {before}, {{"value", 1.0}})}, {{"state", 0}});
      REQUIRE(check_program(w.program).ok());
      REQUIRE(import_model(w.program, 2).ok());
      damage(w.program);
      p = w.program;
    });
  }

  TEST_CASE("a state has a name, a type and a shape of its own, and one node that writes it") {
    const auto with = [](void (*change)(es::ModelState&)) {
      return error_of_state([&](auto& p) { change(p.states[0]); });
    };
    CHECK(error_of_state([](auto& p) { p.format = 1; }) ==
          "format = 1: allowed is 2 for a model with states");
    CHECK(error_of_state([](auto& p) {
            p.states.clear();
            p.format = 1;
          }) == "nodes[6].inputs[0] = 13: allowed is a value that an earlier node writes");
    CHECK(with([](auto& s) { s.name = "bn.weight"; }) ==
          "states[0].name = \"bn.weight\" is used twice");
    CHECK(with([](auto& s) { s.name = "bn.running_mean"; }) ==
          "states[0].name = \"bn.running_mean\" is used twice");
    CHECK(with([](auto& s) { s.value = 0; }) == "states[0].value = 0: the value is written twice");
    CHECK(with([](auto& s) { s.value = -1; }) == "states[0].value = -1: allowed is 0 to 15");
    CHECK(with([](auto& s) { s.dtype = "I64"; }) ==
          "states[0].dtype = \"I64\": allowed for f32 is F32");
    CHECK(with([](auto& s) { s.dtype = ""; }) == "states[0].dtype = \"\": allowed for f32 is F32");
    CHECK(with([](auto& s) { s.dtype = "F32,"; }) ==
          "states[0].dtype = \"F32,\": allowed for f32 is F32");
    CHECK(error_of_state([](auto& p) { p.values[13].dims[0].per_batch = true; }) ==
          "states[0].value = 13: a state has no extent per batch");
    CHECK(error_of_state([](auto& p) { p.values[13].dims[0].size = std::int64_t{1} << 30; }) ==
          "states[0]: the states have more than 268435456 elements: allowed are at most as many");
    CHECK(error_of_state([](auto& p) { p.nodes[7].attributes[0].value = std::int64_t{1}; }) ==
          "nodes[7].attributes \"state\" = 1: allowed is an index of states, 0 to 0");
    CHECK(error_of_state([](auto& p) { p.nodes.pop_back(); }) ==
          "states[0] is written by no node: allowed is one set_state");
    CHECK(error_of_state([](auto& p) {
            es::ModelNode again = p.nodes[7];
            p.values.push_back(p.values[13]);
            again.outputs[0] = static_cast<es::ValueId>(p.values.size() - 1);
            p.nodes.push_back(again);
          }) == "nodes[8].attributes \"state\" = 0: nodes[7] writes this state already");
    CHECK(error_of_state([](auto& p) {
            p.values[14].dims[0].size = 5;
          }).starts_with("nodes[7].attributes \"state\" = 0: x is f32 [5]: allowed is f32 [4]"));
  }

  TEST_CASE("initial values are finite, and their bound is not negative") {
    const auto error = [](float constant, float bound) {
      return error_of([&](auto& p) { p.parameters[1].init = es::ModelInit{constant, bound}; });
    };
    CHECK(error(-2.0F, 0.5F).empty());
    CHECK(error(std::numeric_limits<float>::quiet_NaN(), 0.5F)
              .starts_with("parameters[1].init.constant = "));
    CHECK(error(2e30F, 0.5F).ends_with(": allowed is -1e30 to 1e30"));
    CHECK(error(0.0F, -0.5F) == "parameters[1].init.bound = -0.5: allowed is 0 to 1e30");
    CHECK(error(0.0F, std::numeric_limits<float>::infinity())
              .starts_with("parameters[1].init.bound = "));
  }

  TEST_CASE("nodes are checked against their kinds") {
    CHECK(error_of([](auto& p) { p.nodes[2].kind = "relo"; }) ==
          "nodes[2].kind = \"relo\": this version knows no such kind");
    CHECK(error_of([](auto& p) { p.nodes[2].version = 2; }) ==
          "nodes[2].version = 2: allowed for relu is 1");
    CHECK(error_of([](auto& p) { p.nodes[0].attributes[0].name = "strides"; }) ==
          "nodes[0].attributes[0].name = \"strides\": allowed for conv are stride, padding, "
          "dilation, groups");
    CHECK(error_of([](auto& p) { p.nodes[0].attributes.pop_back(); }) ==
          "nodes[0].attributes lacks \"dilation\" of conv");
    CHECK(error_of([](auto& p) { p.nodes[0].attributes[2] = p.nodes[0].attributes[1]; }) ==
          "nodes[0].attributes has \"padding\" twice");
    CHECK(error_of([](auto& p) { p.nodes[0].attributes[0].value = 1.5; }) ==
          "nodes[0].attributes[0] \"stride\" has another type: allowed is a list of integers");
    CHECK(error_of([](auto& p) {
            p.nodes[0].attributes[0].value = Ints{1, 0};
          }) == "nodes[0].attributes[0] \"stride\" = 0: allowed is 1 to 1048576");
    CHECK(error_of([](auto& p) { p.nodes[5].attributes[0].value = "most"; }) ==
          "nodes[5].attributes[0] \"reduction\" = \"most\": allowed is mean, sum");
    CHECK(error_of([](auto& p) { p.nodes[2].inputs.clear(); }) ==
          "nodes[2].inputs[0] is missing: relu needs its x");
    CHECK(error_of([](auto& p) { p.nodes[2].inputs.push_back(0); }) ==
          "nodes[2].inputs has 2 values: allowed for relu are at most 1");
    CHECK(error_of([](auto& p) { p.nodes[5].inputs[1] = 0; }) ==
          "nodes[5].inputs[1] (labels) is f32 [2,3,8,8]: allowed is i32");
    CHECK(error_of([](auto& p) { p.nodes[2].outputs.clear(); }).substr(0, 42) ==
          "nodes[3].inputs[0] = 7: allowed is a value");
    CHECK(error_of([](auto& p) {
            p.nodes[0].attributes[0].value = Ints{2, 2};
          }) ==
          "nodes[0].outputs[0] is f32 [2,4,8,8] in values[3], but nodes[0] (conv \"conv\") gives "
          "f32 [2,4,4,4]");
    CHECK(error_of([](auto& p) { p.values[2].dims[2].size = 20; }) ==
          "nodes[0] (conv \"conv\"): kernel [4,3,20,3] is larger than its padded input [2,3,8,8]");
  }

  TEST_CASE("everything that the engine cannot execute is listed at once") {
    ProgramWriter w;
    const es::ValueId image = w.input("image", {3, 8, 8}), label = w.ids("label", {}, 9);
    const auto resize = [&](const char* name, es::ValueId x, const Ints& size) {
      return w.node("resize", {x}, {{"size", size}, {"mode", "cubic"}}, name);
    };
    w.output("image", resize("down", resize("up", image, {65536, 16384}), {8, 8}));
    const es::ValueId edge =
        w.node("pad", {w.ids("ids", {2}, 9)},
               {{"before", Ints{0, 1}}, {"after", Ints{0, 1}}, {"value", 3e9}}, "edge");
    w.classify(w.linear("fc", w.node("cast", {edge}, {{"to", "f32"}}), 10), label);
    REQUIRE(check_program(w.program).ok());
    const es::Result<Graph> graph = import_model(w.program, 2);
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.error().message ==
          "unsupported nodes: pad: a value that does not fit i32 (1 x, first nodes[2] (pad "
          "\"edge\")); resize: 2^31 elements or more (2 x, first nodes[0] (resize \"up\"))");
  }

  TEST_CASE("random numbers have a site, no inputs, and a shape that the counter can number") {
    const auto result = [](const es::test::Dims& extents,
                           const std::function<void(es::ModelNode&)>& damage) {
      ProgramWriter w;
      const es::ValueId x = w.input("x", {3}), p = w.parameter("p", {});
      const es::ValueId noise = w.draw("normal", extents, 7);
      damage(w.program.nodes[0]);
      Ints axes;
      for (std::size_t axis = 0; axis < extents.size(); ++axis)
        axes.push_back(static_cast<std::int64_t>(axis));
      w.program.loss =
          w.node("mul", {p, w.node("amax", {noise}, {{"axes", axes}, {"keepdim", false}})});
      w.output("x", x);
      const es::Status checked = check_program(w.program);
      if (!checked.ok()) return checked.error().message;
      const es::Result<Graph> graph = import_model(w.program, 2);
      return graph.ok() ? "" : graph.error().message;
    };
    const auto nothing = [](es::ModelNode&) {};
    CHECK(result(es::test::per_sample({4}), nothing) == "");
    CHECK(result(es::test::dims({1 << 17, 1 << 17}), nothing) == "");
    CHECK(result(es::test::dims({1 << 17, 1 << 18}), nothing) ==
          "model : uniform \"normal_0\": shape [131072,262144]: allowed are at most 2^34 random "
          "numbers");
    CHECK(result(es::test::dims({4}), [](auto& n) { n.attributes[0].value = std::int64_t{-1}; }) ==
          "nodes[0].attributes[0] \"site\" = -1: allowed is 0 to 2147483647");
    CHECK(result(es::test::dims({4}), [](auto& n) {
            n.attributes[0].value = std::int64_t{1} << 31;
          }) == "nodes[0].attributes[0] \"site\" = 2147483648: allowed is 0 to 2147483647");
    CHECK(result(es::test::dims({4}), [](auto& n) { n.attributes.clear(); }) ==
          "nodes[0].attributes lacks \"site\" of normal");
    CHECK(result(es::test::dims({4}), [](auto& n) { n.inputs = {0}; }) ==
          "nodes[0].inputs has 1 values: allowed for normal are at most 0");
  }

  // --- Damage at random.

  class Mutation {
   public:
    explicit Mutation(std::uint64_t seed) : random_(seed) {}

    void damage(ModelProgram& p) {
      switch (pick(12)) {
        case 0:
          return id(any(p.nodes).inputs, p);
        case 1:
          return id(any(p.nodes).outputs, p);
        case 2:
          return value(p);
        case 3:
          return attribute(any(p.nodes));
        case 4:
          std::swap(any(p.nodes), any(p.nodes));
          return;
        case 5:
          any(p.nodes).kind = any(p.nodes).kind;
          return;
        case 6:
          p.loss = some_id(p);
          return;
        case 7:
          any(p.parameters).value = some_id(p);
          return;
        case 8:
          any(p.inputs).value = some_id(p);
          return;
        case 9:
          any(p.outputs).value = some_id(p);
          return;
        case 10:
          p.nodes.erase(p.nodes.begin() + static_cast<std::ptrdiff_t>(pick(p.nodes.size())));
          if (p.nodes.empty()) p.nodes.emplace_back();
          return;
        default:
          any(p.parameters).trainable = false;
      }
    }

   private:
    std::size_t pick(std::size_t count) { return random_() % count; }
    template <class T>
    T& any(std::vector<T>& list) {
      return list[pick(list.size())];
    }
    es::ValueId some_id(const ModelProgram& p) {
      if (pick(8) == 0) return static_cast<es::ValueId>(random_());
      return static_cast<es::ValueId>(pick(p.values.size()));
    }
    std::int64_t some_integer() {
      constexpr std::int64_t kEdges[] = {0, 1, 2, 3, -1, 7, 1 << 20, std::int64_t{1} << 40};
      return pick(10) == 0 ? static_cast<std::int64_t>(random_()) : kEdges[pick(8)];
    }
    void id(std::vector<es::ValueId>& ids, const ModelProgram& p) {
      if (ids.empty() || pick(6) == 0) return ids.push_back(some_id(p));
      if (pick(6) == 0) return ids.pop_back();
      any(ids) = some_id(p);
    }
    void value(ModelProgram& p) {
      es::ModelValue& v = any(p.values);
      if (pick(4) == 0) v.type = static_cast<ValueType>(pick(3));
      if (v.dims.empty() || pick(6) == 0) return v.dims.push_back({some_integer(), false});
      es::ModelDim& d = any(v.dims);
      pick(3) == 0 ? void(d.per_batch = !d.per_batch) : void(d.size = some_integer());
    }
    void attribute(es::ModelNode& node) {
      if (node.attributes.empty()) return node.attributes.push_back({"axis", some_integer()});
      es::ModelAttribute& a = any(node.attributes);
      if (auto* i = std::get_if<std::int64_t>(&a.value)) *i = some_integer();
      if (auto* b = std::get_if<bool>(&a.value)) *b = !*b;
      if (auto* d = std::get_if<double>(&a.value)) *d = static_cast<double>(some_integer());
      if (auto* list = std::get_if<std::vector<double>>(&a.value))
        list->push_back(static_cast<double>(some_integer()));
      if (auto* list = std::get_if<Ints>(&a.value))
        list->empty() || pick(5) == 0 ? list->push_back(some_integer())
                                      : void(any(*list) = some_integer());
    }

    std::mt19937_64 random_;
  };

  // Returns the error of an LSTM of 3 units over 5 steps, one of whose inputs has these extents.
  std::string error_of_lstm(std::size_t slot, const es::test::Dims& extents) {
    ProgramWriter w;
    const es::ValueId x = w.node("permute", {w.input("x", {5, 12})}, {{"order", Ints{1, 0, 2}}});
    const es::ValueId state =
        w.node("mean", {w.input("state", {2, 3})}, {{"axes", Ints{1}}, {"keepdim", false}});
    const std::vector<es::ValueId> inputs = {x, w.parameter("w", {12, 3}), w.parameter("b", {12}),
                                             state, state};
    const es::ValueId y = w.node("lstm", inputs);
    w.program.loss = w.node("mean", {y}, {{"axes", Ints{0, 1, 2}}, {"keepdim", false}});
    w.output("state", state);
    REQUIRE(check_program(w.program).ok());
    w.program.values[static_cast<std::size_t>(inputs[slot])].dims = extents;
    const es::Status status = check_program(w.program);
    return status.ok() ? "" : status.error().message;
  }

  TEST_CASE("the weight, the bias and the first states of a recurrent layer fit its input") {
    const std::string node = "nodes[2] (lstm): ";
    CHECK(error_of_lstm(1, es::test::dims({12, 4})) == node + "weight [12,4] must be [12,3]");
    CHECK(error_of_lstm(2, es::test::dims({9})) == node + "bias [9] must be [12]");
  }

  TEST_CASE("the loss of a detector is the loss of its model, with as many numbers as it needs") {
    const auto error = [](const std::function<void(ModelProgram&)>& damage) {
      ModelProgram program = es::test::detector_program();
      REQUIRE(check_program(program).ok());
      damage(program);
      const es::Status status = check_program(program);
      return status.ok() ? "" : status.error().message;
    };
    CHECK(
        error([](auto& p) { p.nodes.back().attributes[2].value = std::vector<double>(17, 1.0); }) ==
        "nodes[7] (yolo \"loss\"): anchors and image have 17 and 2 elements: allowed are 18 and 2");
    CHECK(error([](auto& p) {
            p.nodes.back().attributes[2].value = std::vector<double>(18, -1.0);
          }) == "nodes[7].attributes[2] \"anchors\" = -1: allowed is 0.001 to 1000000");
    CHECK(error([](auto& p) {
            p.nodes.back().attributes[0].value = std::int64_t{3};
          }).starts_with("nodes[7] (yolo \"loss\"): output [2,21,1,1] must be [2,24,h,w]"));
    const auto with_more = [](ModelProgram& p) {
      es::ModelNode more{.kind = "square", .inputs = {p.loss}};
      p.values.push_back({ValueType::kF32, {}});
      more.outputs = {static_cast<es::ValueId>(p.values.size() - 1)};
      p.nodes.push_back(more);
      p.loss = more.outputs[0];
    };
    CHECK(error(with_more).starts_with("nodes[7].outputs has value "));
    CHECK(error([&](auto& p) {
            const es::ValueId loss = p.loss;
            with_more(p);
            p.loss = loss;
          }).starts_with("nodes[8] reads value "));
  }

  TEST_CASE("a damaged program is refused, or it becomes a graph that can be differentiated") {
    constexpr int kRounds = 10000;
    std::mt19937_64 random(es::test::seed("mutations"));
    std::vector<ModelProgram> programs{small_program(), es::test::detector_program()};
    for (const auto& c : es::test::program_cases()) programs.push_back(c.program);
    int refused = 0, imported = 0;
    for (int round = 0; round < kRounds; ++round) {
      ModelProgram program = programs[random() % programs.size()];
      Mutation mutation(random());
      for (std::uint64_t i = 0; i <= random() % 3; ++i) mutation.damage(program);
      const es::Status checked = check_program(program);
      if (!checked.ok()) {
        ++refused;
        CHECK_FALSE(checked.error().message.empty());
        continue;
      }
      const es::Result<Graph> graph = import_model(program, 2);
      if (graph.ok()) {
        ++imported;
        CHECK(compile(*graph).first_backward > 0);
      }
    }
    MESSAGE(refused, " of ", kRounds, " refused, ", imported, " imported");
    CHECK(refused > kRounds / 4);
    CHECK(imported > kRounds / 20);
  }
}
