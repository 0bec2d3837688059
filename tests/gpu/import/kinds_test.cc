// Every kind beside an fp64 reference: the loss, the outputs, and the gradients of the parameters.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "gpu/graph/fuse.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "gpu/params/pytorch_layout.h"
#include "tests/gpu/import/program_cases.h"
#include "tests/gpu/import/program_reference.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/import/kinds") {
  using namespace es::gpu;
  using es::ModelProgram;
  using es::test::Array;
  using es::test::Arrays;
  using es::test::ProgramCase;
  using es::test::ProgramWriter;
  using es::test::StepRig;

  constexpr std::int64_t kBatch = 3;

  // The words of a field as an array in logical order.
  Array input_array(const ModelProgram& program, const es::ModelInput& input, const StepRig& rig,
                    std::size_t field) {
    const es::SampleField& f = rig.graph().layout.fields[field];
    const float* words = rig.words.data() + kBatch * rig.graph().layout.offset(field);
    Array a;
    for (const es::ModelDim& d : program.values[static_cast<std::size_t>(input.value)].dims)
      a.shape.push_back(d.per_batch ? d.size * kBatch : d.size);
    const bool image = a.shape.size() == 4;
    for (std::int64_t n = 0; n < kBatch; ++n)
      for (std::int64_t i = 0; i < f.words(); ++i) {
        const std::int64_t pixels = f.height * f.width;
        const std::int64_t from = image ? i % pixels * f.channels + i / pixels : i;
        const float word = words[n * f.words() + from];
        a.values.push_back(f.type == es::FieldType::kF32
                               ? static_cast<double>(word)
                               : static_cast<double>(std::bit_cast<std::int32_t>(word)));
      }
    return a;
  }

  Arrays arrays_of(const ModelProgram& program, const StepRig& rig) {
    Arrays arrays;
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
      arrays[program.inputs[i].name] = input_array(program, program.inputs[i], rig, i);
    for (const ParamInfo& p : rig.graph().table.params()) {
      std::vector<float> theirs(static_cast<std::size_t>(p.count));
      to_pytorch(p, rig.params.data() + p.offset, theirs.data());
      arrays[p.name] = {p.torch_shape, {theirs.begin(), theirs.end()}};
    }
    return arrays;
  }

  double loss_of(const ModelProgram& program, const Arrays& arrays, const DropoutKey& key) {
    return es::test::evaluate_program(program, kBatch, arrays,
                                      key)[static_cast<std::size_t>(program.loss)]
        .values[0];
  }

  void check_gradient(const ModelProgram& program, const StepRig& rig, const ParamInfo& p,
                      Arrays arrays, std::mt19937_64& random) {
    INFO(p.name);
    std::vector<float> gradient(static_cast<std::size_t>(p.count));
    to_pytorch(p, rig.grads.data() + p.offset, gradient.data());
    const std::vector<double> at = arrays[p.name].values;
    std::vector<double> direction;
    double slope = 0.0, length = 0.0;
    for (const float g : gradient) {
      direction.push_back(std::normal_distribution<double>()(random));
      slope += static_cast<double>(g) * direction.back();
      length += static_cast<double>(g) * static_cast<double>(g);
    }
    const auto moved = [&](double scale) {
      for (std::size_t e = 0; e < at.size(); ++e)
        arrays[p.name].values[e] = at[e] + scale * direction[e];
      return loss_of(program, arrays, rig.key);
    };
    constexpr double kStep = 1e-5;
    const double exact = p.trained ? (moved(kStep) - moved(-kStep)) / (2 * kStep) : 0.0;
    CHECK(std::abs(slope - exact) < 2e-4 * (std::sqrt(length) + 0.05));
  }

  void check_outputs(const ModelProgram& program, StepRig& rig, const std::vector<Array>& values) {
    REQUIRE(rig.executor->run_eval(rig.params.data(), rig.input(), nullptr).ok());
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      INFO(program.outputs[i].name);
      const auto got = rig.executor->values(rig.graph().outputs[i]);
      const Array& expected = values[static_cast<std::size_t>(program.outputs[i].value)];
      REQUIRE(got.size() == expected.values.size());
      for (std::size_t e = 0; e < got.size(); ++e)
        REQUIRE(std::abs(static_cast<double>(got[e]) - expected.values[e]) <
                2e-5 * (1 + std::abs(expected.values[e])));
    }
  }

  // Numbers away from 0, of both signs.
  void fill_params(StepRig & rig, std::mt19937_64 & random) {
    std::uniform_real_distribution<float> number(0.2F, 1.0F);
    for (const ParamInfo& p : rig.graph().table.params())
      for (std::int64_t e = 0; e < p.count; ++e)
        rig.params.data()[p.offset + e] = random() % 2 == 0 ? number(random) : -number(random);
  }

  void check_case(const ProgramCase& c, std::mt19937_64& random) {
    INFO(c.name);
    const es::Status checked = check_program(c.program);
    REQUIRE_MESSAGE(checked.ok(), (checked.ok() ? "" : checked.error().message));
    es::Result<Graph> graph = import_model(c.program, kBatch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    StepRig rig(compile(*std::move(graph)), random());
    fill_params(rig, random);
    const double loss = rig.run();
    const Arrays arrays = arrays_of(c.program, rig);
    const std::vector<Array> values =
        es::test::evaluate_program(c.program, kBatch, arrays, rig.key);
    const double expected = values[static_cast<std::size_t>(c.program.loss)].values[0];
    CHECK(std::abs(loss - expected) < 1e-5 * (1 + std::abs(expected)));
    for (const ParamInfo& p : rig.graph().table.params())
      check_gradient(c.program, rig, p, arrays, random);
    if (!c.trains_only) check_outputs(c.program, rig, values);
  }

  TEST_CASE("loss, outputs and gradients of every kind agree with an fp64 reference") {
    std::mt19937_64 random(es::test::seed("import"));
    for (const ProgramCase& c : es::test::program_cases()) check_case(c, random);
  }

  TEST_CASE("the gradient of a product is the product of the other factors, also of zeros") {
    using Floats = std::vector<float>;
    const std::pair<Floats, Floats> cases[] = {{{2, 3, 4}, {12, 8, 6}},
                                               {{2, 0, 4}, {0, 8, 0}},
                                               {{0, -0.0F, 4}, {0, 0, 0}},
                                               {{0, 0, 0}, {0, 0, 0}}};
    ProgramWriter w;
    const es::ValueId x = w.input("x", {3}), p = w.parameter("p", {3});
    w.program.loss = w.node("prod", {p}, {{"axes", std::vector<std::int64_t>{0}}});
    w.output("x", x);
    const es::Result<Graph> graph = import_model(w.program, kBatch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    StepRig rig(compile(*graph), 1);
    for (const auto& [factors, gradient] : cases) {
      std::copy(factors.begin(), factors.end(), rig.params.data());
      rig.run();
      CHECK(Floats(rig.grads.data(), rig.grads.data() + 3) == gradient);
    }
  }

  TEST_CASE("a batch norm that is called twice updates its statistics twice, in order") {
    ProgramWriter w;
    const es::ValueId x = w.input("x", {1, 4}), p = w.parameter("p", {});
    w.program.statistics = {{"m", 1, false}, {"v", 1, true}};
    const std::vector<es::ModelAttribute> attributes{
        {"eps", 1e-3}, {"momentum", 0.25}, {"mean", 0}, {"variance", 1}};
    const es::ValueId first = w.node("batch_norm", {x}, attributes);
    const es::ValueId wide =
        w.node("add_scalar", {w.node("mul_scalar", {x}, {{"value", 3.0}})}, {{"value", 5.0}});
    const es::ValueId second = w.node("batch_norm", {wide}, attributes);
    const es::ValueId sum = w.node("mul", {w.node("add", {first, second}), p});
    w.program.loss =
        w.node("sum", {sum}, {{"axes", std::vector<std::int64_t>{0, 1, 2}}, {"keepdim", false}});
    w.output("sum", sum);
    REQUIRE(check_program(w.program).ok());
    const es::Result<Graph> graph = import_model(w.program, kBatch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    StepRig rig(compile(*graph), es::test::seed("statistics"));
    rig.stats = {0.5F, 2.0F};
    rig.run();
    double mean = 0.0, variance = 0.0;
    constexpr int kCount = 4 * kBatch;
    for (int i = 0; i < kCount; ++i)
      mean += static_cast<double>(rig.words[static_cast<std::size_t>(i)]) / kCount;
    for (int i = 0; i < kCount; ++i) {
      const double d = static_cast<double>(rig.words[static_cast<std::size_t>(i)]) - mean;
      variance += d * d / (kCount - 1);
    }
    const auto after = [](double old, double one, double two) {
      return 0.75 * (0.75 * old + 0.25 * one) + 0.25 * two;
    };
    const double expected[] = {after(0.5, mean, 3 * mean + 5), after(2.0, variance, 9 * variance)};
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(std::abs(static_cast<double>(rig.next_stats[i]) - expected[i]) < 1e-5);
  }

  // A loss of q alone, beside a parameter p and a batch norm that it does not read; `terms` adds
  // nodes with the values of these two.
  template <typename Terms>
  StepRig rig_beside(Terms terms) {
    ProgramWriter w;
    const es::ValueId x = w.input("x", {1, 4}), q = w.parameter("q", {}), p = w.parameter("p", {2});
    w.program.statistics = {{"m", 1, false}, {"v", 1, true}};
    const es::ValueId weight = w.parameter("weight", {1}), bias = w.parameter("bias", {1});
    const es::ValueId norm =
        w.node("batch_norm", {x, weight, bias},
               {{"eps", 1e-3}, {"momentum", 0.25}, {"mean", 0}, {"variance", 1}});
    terms(w, p, norm);
    const es::ValueId y = w.node("mul", {x, q});
    w.program.loss =
        w.node("mean", {y}, {{"axes", std::vector<std::int64_t>{0, 1, 2}}, {"keepdim", false}});
    w.output("y", y);
    REQUIRE(check_program(w.program).ok());
    es::Result<Graph> graph = import_model(w.program, kBatch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    return StepRig(compile(*std::move(graph)), es::test::seed("zero_loss"));
  }

  std::vector<std::string> trained_of(const StepRig& rig) {
    std::vector<std::string> names;
    for (const ParamInfo& p : rig.graph().table.trained()) names.push_back(p.name);
    std::ranges::sort(names);
    return names;
  }

  TEST_CASE("a term of the loss that is zero trains what it reads, with a gradient of zeros") {
    using Names = std::vector<std::string>;
    const auto nothing = [](ProgramWriter&, es::ValueId, es::ValueId) {};
    CHECK(trained_of(rig_beside(nothing)) == Names{"q"});
    StepRig rig =
        rig_beside([](ProgramWriter& w, es::ValueId p, es::ValueId) { w.node("zero_loss", {p}); });
    CHECK(trained_of(rig) == Names{"p", "q"});
    std::fill_n(rig.grads.data(), rig.graph().table.total_floats(), 1.0F);
    rig.run();
    for (const ParamInfo& p : rig.graph().table.trained())
      for (std::int64_t e = 0; e < p.count; ++e)
        CHECK((rig.grads.data()[p.offset + e] == 0.0F) == (p.name == "p"));
    const auto behind_a_stop = [](ProgramWriter& w, es::ValueId p, es::ValueId) {
      w.node("zero_loss", {w.node("stop_gradient", {p})});
    };
    CHECK(trained_of(rig_beside(behind_a_stop)) == Names{"q"});
  }

  TEST_CASE("a term of the loss that is zero moves the statistics of a batch norm") {
    StepRig rig = rig_beside([](ProgramWriter& w, es::ValueId, es::ValueId norm) {
      w.node("zero_loss", {w.node("stop_gradient", {norm})});
    });
    CHECK(trained_of(rig) == std::vector<std::string>{"q"});  // not weight and bias of the norm
    rig.stats = {0.5F, 2.0F};
    rig.run();
    CHECK(rig.next_stats[0] != 0.5F);
    CHECK(rig.next_stats[1] != 2.0F);
  }

  // Keeps s = 0.5 * s + mean(x) and counts by 3; the output is p * (x + s) * count, with the new
  // contents in training.
  ModelProgram program_with_states(std::uint32_t region) {
    ProgramWriter w;
    const es::ValueId x = w.input("x", {4}), p = w.parameter("p", {4});
    const es::ValueId s = w.state("s", {4}), n = w.state("n", {}, "I64", es::ValueType::kI32);
    const es::ValueId mean =
        w.node("mean", {x}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdim", false}});
    const es::ValueId half = w.node("mul_scalar", {s}, {{"value", 0.5}});
    const es::ValueId kept = w.node("set_state", {w.node("add", {half, mean})}, {{"state", 0}});
    const es::ValueId more = w.node("add", {n, w.constant_ids({}, {3})});
    const es::ValueId count = w.node("set_state", {more}, {{"state", 1}});
    const es::ValueId sum = w.node("tanh", {w.node("mul", {w.node("add", {x, kept}), p})});
    const es::ValueId y = w.node("mul", {sum, w.node("cast", {count}, {{"to", "f32"}})});
    w.output("y", y);
    w.program.loss =
        w.node("mean", {y}, {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdim", false}});
    for (es::ModelNode& node : w.program.nodes) node.region = region;
    return w.program;
  }

  TEST_CASE(
      "a step writes states beside those that it reads; an evaluation reads and writes none") {
    std::vector<std::uint32_t> bits;
    for (const std::uint32_t region : {0U, 1U}) {
      const ModelProgram program = program_with_states(region);
      REQUIRE(check_program(program).ok());
      const es::Result<Graph> graph = import_model(program, kBatch);
      REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
      // The samples of an evaluation do not meet in a state.
      CHECK_FALSE(graph->loss_of_batch);
      for (const es::CpuClass cpu_class : es::supported_cpu_classes()) {
        StepRig rig(compile(*graph), es::test::seed("states"), {.cpu_class = cpu_class});
        // A count beyond 2^24, which no fp32 number has, and one whose bits are those of no finite
        // number.
        for (const std::int32_t count : {100'000'001, -1}) {
          rig.stats = {1.0F, -2.0F, 0.25F, 4.0F, std::bit_cast<float>(count)};
          const std::vector<std::uint32_t> step = rig.step_bits();
          CHECK(std::bit_cast<std::int32_t>(rig.next_stats[4]) == count + 3);
          for (std::size_t c = 0; c < 4; ++c) {
            double mean = 0.0;
            for (std::size_t i = 0; i < kBatch; ++i)
              mean += static_cast<double>(rig.words[4 * i + c]) / kBatch;
            const double expected = 0.5 * static_cast<double>(rig.stats[c]) + mean;
            CHECK(std::abs(static_cast<double>(rig.next_stats[c]) - expected) < 1e-6);
          }
          CHECK(rig.step_bits() == step);
          const std::vector<float> evaluated = rig.evaluate();
          for (std::size_t i = 0; i < std::size_t{4} * kBatch; ++i) {
            const auto x = static_cast<double>(rig.words[i] + rig.stats[i % 4]);
            const double y = std::tanh(x * static_cast<double>(rig.params.data()[i % 4])) * count;
            CHECK(std::abs(static_cast<double>(evaluated[i]) - y) < 1e-5 * (1 + std::abs(y)));
          }
          if (count < 0) continue;
          if (bits.empty()) bits = step;
          CHECK(step == bits);
        }
      }
    }
  }

  TEST_CASE("what an integer outside its range selects is not a number") {
    ProgramWriter w;
    const es::ValueId x = w.input("x", {4}), ids = w.ids("ids", {4}, 9);
    const es::ValueId table = w.parameter("table", {7, 4});
    w.program.inputs[1].low = 6;  // 6 is a row
    const es::ValueId rows = w.node("take_rows", {table, ids});
    const es::ValueId elements = w.node("gather", {table, ids}, {{"axis", 0}});
    const es::ValueId sums = w.node("scatter_add", {x, ids, x}, {{"axis", 1}});
    for (const es::ValueId y : {rows, elements, sums}) w.output("y" + std::to_string(y), y);
    w.classify(x, w.ids("label", {}, 3));
    w.program.loss = w.node(
        "add",
        {w.program.loss, w.node("mean", {rows}, {{"axes", std::vector<std::int64_t>{0, 1, 2}}})});
    REQUIRE(check_program(w.program).ok());
    const es::Result<Graph> graph = import_model(w.program, kBatch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    for (const es::CpuClass cpu_class : es::supported_cpu_classes()) {
      StepRig rig(compile(*graph), es::test::seed("outside"), {.cpu_class = cpu_class});
      REQUIRE(rig.executor->run_eval(rig.params.data(), rig.input(), nullptr).ok());
      const auto* places = reinterpret_cast<const std::int32_t*>(rig.words.data() + 4 * kBatch);
      const auto read = rig.executor->values(rig.graph().outputs[0]);
      const auto one = rig.executor->values(rig.graph().outputs[1]);
      const auto added = rig.executor->values(rig.graph().outputs[2]);
      for (std::int64_t i = 0; i < 4 * kBatch; ++i) {
        CHECK(std::isnan(one[i]) == (places[i] > 6));
        for (std::int64_t c = 0; c < 4; ++c) CHECK(std::isnan(read[i * 4 + c]) == (places[i] > 6));
      }
      // Every place is above the four elements of a sample, so its last one is not a number.
      for (std::int64_t i = 0; i < 4 * kBatch; ++i) CHECK(std::isnan(added[i]) == (i % 4 == 3));
    }
  }

  // Builds the loss from numbers [B,4] and an output.
  using Loss = es::ValueId (*)(ProgramWriter&, es::ValueId);

  // A model that takes integers or truth values by integers in [0, 9] from a table of 7.
  ModelProgram selecting_program(bool truth, Loss loss) {
    ProgramWriter w;
    const es::ValueId x = w.input("x", {4}), ids = w.ids("ids", {4}, 9);
    es::ValueId table = w.constant_ids({7}, {4, 0, 2, 1, 3, 5, 6});
    if (truth) table = w.node("cast", {table}, {{"to", "bool"}});
    const es::ValueId taken = w.node("take_rows", {table, ids});
    const es::ValueId numbers = w.node("cast", {taken}, {{"to", "f32"}});
    const es::ValueId y = w.node("mul", {w.node("add", {x, numbers}), w.parameter("p", {4})});
    w.program.loss = loss(w, y);
    w.output("y", y);
    return w.program;
  }

  TEST_CASE("an integer outside its range that selects integers or truth values ends the step") {
    const Loss losses[] = {
        [](ProgramWriter& w, es::ValueId y) {
          return w.node("mean", {y}, {{"axes", std::vector<std::int64_t>{0, 1}}});
        },
        [](ProgramWriter& w, es::ValueId y) {
          return w.node("cross_entropy", {y, w.ids("label", {}, 3)}, {{"reduction", "mean"}});
        },
        [](ProgramWriter& w, es::ValueId y) {
          return w.node("mse", {y, w.input("t", {4})}, {{"reduction", "mean"}});
        },
        [](ProgramWriter& w, es::ValueId y) {
          return w.node("bce_with_logits", {y, w.input("t", {4})}, {{"reduction", "mean"}});
        }};
    for (const bool truth : {false, true})
      for (const Loss loss : losses) {
        const ModelProgram program = selecting_program(truth, loss);
        REQUIRE(check_program(program).ok());
        const es::Result<Graph> graph = import_model(program, kBatch);
        REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
        StepRig rig(compile(*graph), es::test::seed("refused"));
        const auto step = [&](std::int32_t last) {
          for (std::int64_t i = 0; i < 4 * kBatch; ++i)
            rig.words[static_cast<std::size_t>(4 * kBatch + i)] =
                std::bit_cast<float>(i + 1 < 4 * kBatch ? static_cast<std::int32_t>(i % 7) : last);
          return *rig.executor->run_local_step(rig.step(), [](std::uint32_t) {});
        };
        const LocalStepResult right = step(6);
        CHECK(std::isfinite(right.loss));
        CHECK(right.fault.op == nullptr);
        const auto evaluated = rig.evaluate();
        CHECK(std::none_of(evaluated.begin(), evaluated.end(), [](float v) { return v != v; }));
        CHECK(step(7).fault.op != nullptr);
        const auto refused = rig.evaluate();
        CHECK(std::all_of(refused.begin(), refused.end(), [](float v) { return v != v; }));
      }
  }

  TEST_CASE("an imported program has the same bits in every kernel class, with any threads") {
    const std::uint64_t seed = es::test::seed("import bits");
    for (const ProgramCase& c : es::test::program_cases()) {
      INFO(c.name);
      const es::Result<Graph> graph = import_model(c.program, kBatch);
      REQUIRE(graph.ok());
      StepRig scalar(compile(*graph), seed);
      std::mt19937_64 random(seed);
      fill_params(scalar, random);
      const std::vector<std::uint32_t> expected = scalar.step_bits();
      for (const es::CpuClass cpu_class : es::supported_cpu_classes()) {
        StepRig other(compile(*graph), seed, {.cpu_class = cpu_class, .threads = 2});
        std::copy_n(scalar.params.data(), scalar.params.floats(), other.params.data());
        CHECK(other.step_bits() == expected);
      }
    }
  }

  ModelProgram with_random_regions(ModelProgram program, std::mt19937_64 & random) {
    const std::uint64_t regions = 1 + random() % 4;
    for (es::ModelNode& node : program.nodes)
      node.region = static_cast<std::uint32_t>(random() % (regions + 1));
    return program;
  }

  TEST_CASE("any regions of the nodes of an imported program give the same bits") {
    constexpr int kDraws = 4;
    const std::uint64_t seed = es::test::seed("import regions");
    std::mt19937_64 random(seed);
    std::size_t more_operators = 0;
    for (const ProgramCase& c : es::test::program_cases()) {
      INFO(c.name);
      es::Result<Graph> graph = import_model(c.program, kBatch);
      REQUIRE(graph.ok());
      StepRig plain(compile(*std::move(graph)), seed);
      fill_params(plain, random);
      const std::vector<std::uint32_t> expected = plain.step_bits();
      for (int draw = 0; draw < kDraws; ++draw) {
        graph = import_model(with_random_regions(c.program, random), kBatch);
        REQUIRE(graph.ok());
        StepRig recomputing(compile(*std::move(graph)), seed);
        more_operators += recomputing.graph().ops.size() > plain.graph().ops.size();
        std::copy_n(plain.params.data(), plain.params.floats(), recomputing.params.data());
        CHECK(recomputing.step_bits() == expected);
      }
    }
    CHECK(more_operators > 20);
  }
}
