// Which losses are the means of rows that belong to samples.
#include "gpu/import/sample_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "gpu/graph/fuse.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "tests/gpu/import/program_cases.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/import/sample_rows") {
  using namespace es::gpu;
  using es::ModelProgram;
  using es::ValueId;
  using es::test::ProgramCase;
  using es::test::ProgramWriter;
  using es::test::StepRig;
  using Ints = std::vector<std::int64_t>;

  constexpr std::int64_t kSamples = 3;

  // Overwrites sample `to` with sample `from`.
  void copy_sample(StepRig & rig, std::int64_t from, std::int64_t to) {
    float* field = rig.words.data();
    for (const es::SampleField& f : rig.graph().layout.fields) {
      std::copy_n(field + from * f.words(), f.words(), field + to * f.words());
      field += kSamples * f.words();
    }
  }

  std::vector<float> values(const StepRig& rig, TensorId t) {
    const std::span<const float> found = rig.executor->values(t);
    return {found.begin(), found.end()};
  }

  // The rows of one sample.
  std::vector<std::uint32_t> rows(StepRig & rig, std::int64_t sample) {
    REQUIRE(rig.executor->run_eval(rig.params.data(), rig.input(), nullptr).ok());
    std::vector<std::uint32_t> bits;
    for (const TensorId t : {rig.graph().row_loss, rig.graph().row_weight}) {
      if (t == kNoTensor) continue;
      const std::vector<float> all = values(rig, t);
      const std::int64_t count = rig.graph().rows_per_sample;
      REQUIRE(static_cast<std::int64_t>(all.size()) == kSamples * count);
      for (std::int64_t i = 0; i < count; ++i)
        bits.push_back(
            std::bit_cast<std::uint32_t>(all[static_cast<std::size_t>(sample * count + i)]));
    }
    return bits;
  }

  // The sum of the losses divided by the sum of the weights.
  double mean_of_rows(const StepRig& rig) {
    const Graph& graph = rig.graph();
    double losses = 0.0, weights = 0.0;
    for (const float loss : values(rig, graph.row_loss)) losses += static_cast<double>(loss);
    if (graph.row_weight == kNoTensor)
      return losses / static_cast<double>(graph.shape(graph.row_loss).count());
    const bool labels =
        graph.tensors[static_cast<std::size_t>(graph.row_weight)].type == ElementType::kI32;
    for (const float weight : values(rig, graph.row_weight))
      weights += labels ? static_cast<double>(std::bit_cast<std::int32_t>(weight) >= 0)
                        : static_cast<double>(weight);
    return losses / weights;
  }

  TEST_CASE("the rows of a sample do not depend on other samples, and their mean is the loss") {
    const std::uint64_t seed = es::test::seed("sample rows");
    std::size_t apart = 0, others = 0;
    for (const ProgramCase& c : es::test::program_cases()) {
      INFO(c.name);
      const es::Result<Graph> graph = import_model(c.program, kSamples);
      REQUIRE(graph.ok());
      ++(graph->loss_of_batch ? others : apart);
      if (graph->loss_of_batch) continue;
      StepRig rig(compile(*graph), seed);
      const auto first = rows(rig, 0), second = rows(rig, 1);
      const auto loss = static_cast<double>(values(rig, rig.graph().mean_loss)[0]);
      CHECK(mean_of_rows(rig) == doctest::Approx(loss).epsilon(1e-5));
      copy_sample(rig, 0, 2);
      CHECK(rows(rig, 0) == first);
      CHECK(rows(rig, 1) == second);
      copy_sample(rig, 2, 1);
      CHECK(rows(rig, 0) == first);
    }
    CHECK(apart > 100);
    CHECK(others > 0);
  }

  // Whether the loss of the program, which is the mean of y, is one of samples.
  bool known(ProgramWriter & w, ValueId y) {
    Ints axes;
    for (std::size_t d = 0; d < w.dims_of(y).size(); ++d)
      axes.push_back(static_cast<std::int64_t>(d));
    w.program.loss = w.node("mean", {y}, {{"axes", axes}});
    REQUIRE(check_program(w.program).ok());
    const es::Result<Graph> graph = import_model(w.program, kSamples);
    REQUIRE(graph.ok());
    return !graph->loss_of_batch;
  }

  template <class Body>
  bool known_of(Body body) {
    ProgramWriter w;
    const ValueId x = w.linear("layer", w.input("x", {4}), 4);
    w.output("x", x);
    return known(w, body(w, x));
  }

  TEST_CASE("a mean over samples makes what is computed with it one of the mini-batch") {
    for (const bool centred : {false, true}) {
      ProgramWriter w;
      const ValueId x = w.linear("layer", w.input("x", {4}), 4);
      const ValueId mean = w.node("mean", {x}, {{"axes", Ints{0}}, {"keepdim", true}});
      const ValueId y = centred ? w.node("sub", {x, mean}) : w.node("tanh", {x});
      w.program.loss = w.node("cross_entropy", {y, w.ids("label", {}, 1)}, {{"reduction", "mean"}});
      w.output("x", x);
      w.output("y", y);
      REQUIRE(check_program(w.program).ok());
      const es::Result<Graph> graph = import_model(w.program, kSamples);
      REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
      CHECK(graph->loss_of_batch == centred);
      CHECK(depends_on_mini_batch(w.program, y) == centred);
      CHECK_FALSE(depends_on_mini_batch(w.program, x));
    }
  }

  TEST_CASE("what mixes samples is found") {
    const auto node = [](const char* kind, std::vector<es::ModelAttribute> attributes) {
      return known_of([&](ProgramWriter& w, ValueId x) { return w.node(kind, {x}, attributes); });
    };
    const Ints first{0}, second{1}, swapped{1, 0};
    CHECK(node("cumsum", {{"axis", std::int64_t{1}}}));
    CHECK_FALSE(node("cumsum", {{"axis", std::int64_t{0}}}));
    CHECK(node("flip", {{"axes", second}}));
    CHECK_FALSE(node("flip", {{"axes", first}}));
    CHECK(node("roll", {{"axis", std::int64_t{1}}, {"shift", std::int64_t{1}}}));
    CHECK_FALSE(node("roll", {{"axis", std::int64_t{0}}, {"shift", std::int64_t{1}}}));
    CHECK(node("softmax", {{"axis", std::int64_t{1}}}));
    CHECK_FALSE(node("softmax", {{"axis", std::int64_t{0}}}));
    CHECK(node("sum", {{"axes", second}}));
    CHECK_FALSE(node("permute", {{"order", swapped}}));
    CHECK(node("pad", {{"before", Ints{0, 1}}, {"after", Ints{0, 0}}}));
    CHECK_FALSE(node("pad", {{"before", Ints{1, 0}}, {"after", Ints{-1, 0}}}));
    CHECK_FALSE(known_of([&](ProgramWriter& w, ValueId x) {
      return w.node("sub", {x, w.node("mean", {x}, {{"axes", first}, {"keepdim", true}})});
    }));
    CHECK_FALSE(known_of([&](ProgramWriter& w, ValueId x) {
      return w.node("matmul", {x, w.node("permute", {x}, {{"order", swapped}})});
    }));
    CHECK_FALSE(known_of([&](ProgramWriter& w, ValueId x) {
      return w.node("concat", {x, x}, {{"axis", std::int64_t{0}}});
    }));
    CHECK_FALSE(known_of([&](ProgramWriter& w, ValueId x) {
      return w.node("take_rows", {x, w.ids("at", {}, 0)});
    }));
  }

  TEST_CASE("samples are followed through other axes and back") {
    CHECK(known_of([](ProgramWriter& w, ValueId x) {
      const ValueId y = w.node("permute", {x}, {{"order", Ints{1, 0}}});
      return w.node("permute", {w.node("tanh", {y})}, {{"order", Ints{1, 0}}});
    }));
    CHECK(known_of([](ProgramWriter& w, ValueId x) {
      return w.shaped("reshape", x, {{4, true}});
    }));
    // The elements of a sample are no neighbours any more.
    CHECK_FALSE(known_of([](ProgramWriter& w, ValueId x) {
      const ValueId y = w.node("permute", {x}, {{"order", Ints{1, 0}}});
      return w.shaped("reshape", y, {{4, true}});
    }));
  }

  TEST_CASE("a cross-entropy over all pairs of samples is one of the mini-batch") {
    for (const bool pairs : {false, true}) {
      ProgramWriter w;
      const ValueId x = w.linear("layer", w.input("x", {4}), 4);
      const ValueId y = w.node("permute", {x}, {{"order", Ints{1, 0}}});
      const ValueId logits = pairs ? w.node("matmul", {x, y}) : x;
      w.program.loss =
          w.node("cross_entropy", {logits, w.ids("label", {}, 1)}, {{"reduction", "mean"}});
      w.output("x", x);
      REQUIRE(check_program(w.program).ok());
      const es::Result<Graph> graph = import_model(w.program, kSamples);
      REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
      CHECK(graph->loss_of_batch == pairs);
    }
  }
}
