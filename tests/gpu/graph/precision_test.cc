// Mixed precision: the bits of a step do not depend on how it runs, and the rounding is where the
// definition says it is.
#include "gpu/graph/precision.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "gpu/graph/blocks.h"
#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/ops/product_run.h"
#include "tests/gpu/graph/equal_bits.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/precision") {
  using namespace es::gpu;
  using es::CpuClass;
  using es::FieldType;
  using es::test::OperatorCase;
  using es::test::StepRig;

  std::vector<OperatorCase> cases_at_bf16() {
    std::vector<OperatorCase> cases = es::test::all_cases();
    for (OperatorCase& c : cases) c.graph.bf16 = true;
    return cases;
  }

  // What compile() does, without joining chains, programs and moves.
  Program unfused(Graph graph) {
    return convert_storage(differentiate(choose_storage(fuse_activations(std::move(graph)))));
  }

  TEST_CASE("fused and unfused programs give the same bits in training and evaluation") {
    es::test::check_fusion_keeps_bits(cases_at_bf16(), es::test::seed("bf16 fuse"), unfused);
  }

  TEST_CASE("all kernel classes and numbers of threads give the same bits") {
    es::test::check_classes_and_threads_keep_bits(cases_at_bf16(), es::test::seed("bf16 classes"));
  }

  TEST_CASE("what is computed again in the backward pass has the bits of what is kept") {
    const std::uint64_t seed = es::test::seed("bf16 regions");
    std::mt19937_64 random(seed);
    for (const OperatorCase& c : cases_at_bf16()) {
      INFO(c.name);
      StepRig kept(compile(c.graph), seed), blocks(compile(cut_into_blocks(c.graph)), seed);
      Graph regions = c.graph;
      for (Op& op : regions.ops) op.region = static_cast<std::uint32_t>(random() % 3);
      StepRig recomputed(compile(regions), seed, {.threads = 2});
      CHECK(recomputed.step_bits() == kept.step_bits());
      CHECK(recomputed.evaluation_bits() == kept.evaluation_bits());
      CHECK(blocks.step_bits() == kept.step_bits());
    }
  }

  TEST_CASE("losses in chunks of rows have the bits of whole ones") {
    const std::uint64_t seed = es::test::seed("bf16 chunked losses");
    for (OperatorCase& c : es::test::chunked_loss_cases()) {
      CAPTURE(c.name);
      c.graph.bf16 = true;
      for (const CpuClass cpu_class : es::supported_cpu_classes())
        for (const std::uint32_t threads : {1, 3}) {
          CAPTURE(int(cpu_class));
          CAPTURE(threads);
          StepRig whole(compile(c.graph), seed, {.cpu_class = cpu_class});
          StepRig parts(compile(c.graph, 1), seed, {.cpu_class = cpu_class, .threads = threads});
          CHECK(parts.step_bits() == whole.step_bits());
          CHECK(parts.evaluation_bits() == whole.evaluation_bits());
        }
    }
  }

  // images -> conv -> batch norm and ReLU -> pooling -> linear -> GELU -> linear -> loss
  Graph network() {
    GraphBuilder b(
        "net", 2,
        {{{"image", FieldType::kF32, 6, 6, 3}, {"label", FieldType::kI32, 1, 1, 1, 0, 4}}});
    TensorId x = b.conv2d("conv", b.input("image"), {.out = 8, .kernel = 3, .pad = 1});
    x = b.relu("relu", b.batch_norm("bn", x));
    x = b.global_avg_pool("pool", x);
    x = b.gelu("gelu", b.linear("hidden", x, {.out = 16}));
    x = b.linear("head", x, {.out = 5});
    b.cross_entropy("loss", x, b.input("label"));
    Graph graph = *b.finish({x});
    graph.bf16 = true;
    return graph;
  }

  // "conv: bf16; relu: bf16 f32 f32", by operator.
  std::vector<std::string> storage(const Graph& graph, std::size_t operators) {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < operators; ++i) {
      const Op& op = graph.ops[i];
      std::string line = op.name + ":";
      for (const TensorId t : op.out)
        line += graph.tensors[static_cast<std::size_t>(t)].bf16 ? " bf16" : " f32";
      lines.push_back(line);
    }
    return lines;
  }

  TEST_CASE("activations are bf16; statistics, logits and losses are fp32; so are gradients") {
    const Graph graph = choose_storage(fuse_activations(network()));
    CHECK(storage(graph, graph.ops.size()) ==
          std::vector<std::string>{"conv: bf16", "bn: bf16 f32 f32", "pool: bf16", "hidden: bf16",
                                   "gelu: bf16", "head: f32", "loss: f32 f32 f32"});
    const Program program = differentiate(graph);
    std::vector<std::string> gradients;
    for (std::size_t i = program.first_backward; i < program.graph.ops.size(); ++i) {
      const Op& op = program.graph.ops[i];
      if (op.out.empty()) continue;
      const bool bf16 = program.graph.tensors[static_cast<std::size_t>(op.out[0])].bf16;
      gradients.push_back(op.name + (bf16 ? ": bf16" : ": f32"));
    }
    CHECK(gradients == std::vector<std::string>{"loss: f32", "head: bf16", "gelu: bf16",
                                                "hidden: bf16", "pool: bf16", "bn: bf16"});
    // Without the flag nothing changes.
    Graph plain = network();
    plain.bf16 = false;
    CHECK(std::ranges::none_of(choose_storage(plain).tensors, &Tensor::bf16));
    CHECK(convert_storage(differentiate(plain)).graph.ops.size() ==
          differentiate(plain).graph.ops.size());
  }

  TEST_CASE("what depends on a reduction alone is fp32, and a residual stream is bf16") {
    GraphBuilder b(
        "net", 2,
        {{{"tokens", FieldType::kF32, 4, 1, 8}, {"label", FieldType::kI32, 4, 1, 1, 0, 7}}});
    TensorId x = b.linear("in", b.input("tokens"), {.out = 8});
    const TensorId square = b.unary("square", Function::kSquare, x);
    const TensorId mean = b.reduce("mean", Reduction::kMean, square, {3}, true);
    const TensorId scale = b.unary("scale", Function::kRsqrt, mean);
    const TensorId normal = b.binary("normal", Function::kMul, x, scale);
    x = b.add("add", x, b.linear("out", normal, {.out = 8}));
    x = b.linear("head", b.layer_norm("norm", x, 1e-5), {.out = 8});
    b.cross_entropy("loss", x, b.input("label"));
    Graph graph = *b.finish({x});
    graph.bf16 = true;
    graph = choose_storage(std::move(graph));
    for (const Op& op : graph.ops) {
      CAPTURE(op.name);
      const bool fp32 =
          op.name == "mean" || op.name == "scale" || op.name == "head" || op.name == "loss";
      CHECK(graph.tensors[static_cast<std::size_t>(op.out[0])].bf16 == !fp32);
    }
  }

  // Compares every tensor of a step, as the executor shows it, with bf16 numbers.
  class Watching : public OpObserver {
   public:
    void begin_op(const Op&) override {}
    void end_op(const Op& op) override {
      for (const TensorId t : op.out) {
        const Tensor& tensor = executor->graph().tensors[static_cast<std::size_t>(t)];
        if (tensor.type != ElementType::kF32) continue;
        const auto values = executor->values(t);
        const bool rounded =
            std::ranges::all_of(values, [](float v) { return v == rounded_to_bf16(v); });
        if (tensor.bf16) CHECK(rounded);
        stored += tensor.bf16;
        others += !tensor.bf16 && !rounded;
      }
    }
    Executor* executor = nullptr;
    int stored = 0, others = 0;
  };

  TEST_CASE("tensors that are stored as bf16 hold rounded numbers, and sums hold others") {
    StepRig rig(compile(network()), es::test::seed("bf16 values"));
    Watching watching;
    watching.executor = rig.executor.get();
    rig.executor->set_observer(&watching);
    rig.run();
    CHECK(watching.stored >= 10);
    CHECK(watching.others >= 5);
  }

  TEST_CASE("a linear layer multiplies rounded factors and adds an fp32 bias") {
    GraphBuilder b("net", 1, {{{"x", FieldType::kF32, 1, 1, 3}, {"y", FieldType::kF32, 1, 1, 1}}});
    const TensorId y = b.linear("layer", b.input("x"), {.out = 1});
    b.mse("loss", y, b.input("y"));
    Graph graph = *b.finish({y});
    graph.bf16 = true;
    StepRig rig(compile(graph), 1);
    const float* const p = rig.params.data();
    const ParamTable& table = rig.graph().table;
    const float* const weight = p + table.params()[0].offset;
    const float bias = p[table.params()[1].offset];
    float sum = 0.0F;
    for (std::size_t i = 0; i < 3; ++i)
      sum = std::fma(rounded_to_bf16(rig.words[i]), rounded_to_bf16(weight[i]), sum);
    CHECK(rig.evaluate()[0] == (0.0F + sum) + bias);
    // The gradient of the weight is a product of rounded factors, too.
    rig.run();
    const float dy = (rig.evaluate()[0] - rig.words[3]) * 2.0F;
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(rig.grads.data()[table.params()[0].offset + static_cast<std::int64_t>(i)] ==
            rounded_to_bf16(dy) * rounded_to_bf16(rig.words[i]));
    CHECK(rig.grads.data()[table.params()[1].offset] == dy);
  }

  // Computes the products of the layer "large" with its whole rounded weight, and compares them.
  class WholeWeight : public OpObserver {
   public:
    explicit WholeWeight(StepRig& rig) : rig_(rig) {}
    void begin_op(const Op&) override {}
    void end_op(const Op& op) override {
      const bool forward = op.kind == OpKind::kLinear;
      if (op.name != "large" || (!forward && op.kind != OpKind::kLinearDgrad)) return;
      const Executor& executor = *rig_.executor;
      const ParamInfo& info = rig_.graph().table[op.weight];
      std::vector<float> weight(rig_.params.data() + info.offset,
                                rig_.params.data() + info.offset + info.count);
      for (float& w : weight) w = rounded_to_bf16(w);
      const LinearShape s{rig_.graph().shape(op.in[0]).rows(), kIn, kOut};
      const GemmShape shape = forward ? s.forward() : s.data_gradient();
      const KernelTable& kernels = kernel_table(CpuClass::kScalar);
      // Values of bf16 tensors share memory, so they are copied.
      const auto values = executor.values(op.in[0]);
      std::vector<float> a(values.begin(), values.end());
      for (float& v : a) v = rounded_to_bf16(v);
      const auto y = executor.values(op.out[0]);
      std::vector<float> expected(y.size()), ws(kernels.gemm_workspace_floats(shape));
      const float* const bias =
          forward ? rig_.params.data() + rig_.graph().table[op.bias].offset : nullptr;
      kernels.gemm(shape, a.data(), weight.data(), bias, expected.data(), ws.data());
      CHECK(std::memcmp(expected.data(), y.data(), y.size_bytes()) == 0);
      ++compared;
    }
    static constexpr std::int64_t kIn = 2100, kOut = 1100;
    int compared = 0;

   private:
    StepRig& rig_;
  };

  TEST_CASE("a weight that is rounded where it is read gives the products of a rounded one") {
    GraphBuilder b("net", 3,
                   {{{"x", FieldType::kF32, 1, 1, 8}, {"label", FieldType::kI32, 1, 1, 1, 0, 9}}});
    const TensorId x = b.linear("small", b.input("x"), {.out = WholeWeight::kIn});
    const TensorId y = b.linear("large", x, {.out = WholeWeight::kOut});
    b.cross_entropy("loss", y, b.input("label"));
    Graph graph = *b.finish({y});
    graph.bf16 = true;
    for (const CpuClass cpu_class : es::supported_cpu_classes())
      for (const std::uint32_t threads : {1U, 3U}) {
        StepRig rig(compile(graph), 1, {.cpu_class = cpu_class, .threads = threads});
        WholeWeight whole(rig);
        rig.executor->set_observer(&whole);
        rig.run();
        CHECK(whole.compared == 2);
      }
  }
}
