// Whole models as programs: the same bits as the built-in models.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "gpu/graph/fuse.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "gpu/models/models.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/support/step_rig.h"

TEST_SUITE("gpu/import/models") {
  using namespace es::gpu;
  using es::ModelProgram;
  using es::ValueId;
  using es::test::ProgramWriter;
  using es::test::StepRig;
  using Ints = std::vector<std::int64_t>;

  ValueId basic_block(ProgramWriter & w, const std::string& name, ValueId x, std::int64_t width,
                      std::int64_t stride) {
    ValueId main = w.batch_norm(name + "bn1", w.conv(name + "conv1", x, width, 3, stride, 1));
    main = w.node("relu", {main});
    main = w.batch_norm(name + "bn2", w.conv(name + "conv2", main, width, 3, 1, 1));
    ValueId shortcut = x;
    if (stride != 1 || w.dims_of(x)[1].size != width) {
      shortcut = w.conv(name + "downsample.0", x, width, 1, stride, 0);
      shortcut = w.batch_norm(name + "downsample.1", shortcut);
    }
    return w.node("relu", {w.node("add", {main, shortcut})});
  }

  // The tiny ResNet18 as PyTorch computes it.
  ModelProgram tiny_resnet() {
    ProgramWriter w;
    const ValueId image = w.input("image", {3, 8, 8}), label = w.ids("label", {}, 9);
    ValueId x = w.node("relu", {w.batch_norm("bn1", w.conv("conv1", image, 8, 3, 1, 1))});
    const int blocks[] = {1, 2, 1, 1};
    for (int layer = 0; layer < 4; ++layer)
      for (int i = 0; i < blocks[layer]; ++i)
        x = basic_block(w, "layer" + std::to_string(layer + 1) + "." + std::to_string(i) + ".", x,
                        8 << layer, layer > 0 && i == 0 ? 2 : 1);
    x = w.node("mean", {x}, {{"axes", Ints{2, 3}}, {"keepdim", true}});
    x = w.shaped("reshape", x, es::test::per_sample({64}));
    w.classify(w.linear("fc", x, 10), label);
    return w.program;
  }

  Graph imported(const ModelProgram& program, std::int64_t batch) {
    const es::Status checked = es::gpu::check_program(program);
    REQUIRE_MESSAGE(checked.ok(), (checked.ok() ? "" : checked.error().message));
    es::Result<Graph> graph = import_model(program, batch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    return *std::move(graph);
  }

  std::int64_t executed_ops(const Graph& graph) {
    return std::count_if(graph.ops.begin(), graph.ops.end(),
                         [](const Op& op) { return op.kind != OpKind::kView; });
  }

  TEST_CASE("a ResNet as a program has the bits of the built-in one") {
    const Graph from_program = imported(tiny_resnet(), 4);
    es::ModelSpec spec;
    spec.name = "resnet18";
    spec.size = "tiny";
    spec.classes = 10;
    es::SampleLayout layout = program_layout(tiny_resnet());
    const es::Result<Graph> built_in = build_model(spec, 4, layout);
    REQUIRE(built_in.ok());
    StepRig a(compile(from_program), 7), b(compile(*built_in), 7);
    CHECK(executed_ops(a.graph()) == executed_ops(b.graph()));
    REQUIRE(a.params.floats() == b.params.floats());
    std::memcpy(a.params.data(), b.params.data(),
                sizeof(float) * static_cast<std::size_t>(a.params.floats()));
    CHECK(a.step_bits() == b.step_bits());
    CHECK(a.evaluation_bits() == b.evaluation_bits());
  }
}
