// Changes of how a model runs that never change a bit of the result: fusion, threads, kernel
// classes.
#include "gpu/graph/fuse.h"
#include "gpu/graph/ops/operator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "gpu/graph/builder.h"
#include "tests/gpu/graph/equal_bits.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/fuse") {
  using namespace es::gpu;
  using es::test::OperatorCase;

  TEST_CASE("fused and unfused programs give the same bits in training and evaluation") {
    es::test::check_fusion_keeps_bits(es::test::all_cases(), es::test::seed("fuse"),
                                      [](Graph graph) { return differentiate(std::move(graph)); });
  }

  TEST_CASE("all kernel classes and numbers of threads give the same bits") {
    es::test::check_classes_and_threads_keep_bits(es::test::all_cases(), es::test::seed("classes"));
  }

  std::vector<std::string> details(const Program& program, OpKind kind) {
    std::vector<std::string> found;
    for (const Op& op : program.graph.ops)
      if (op.kind == kind) found.push_back(op_detail(op));
    return found;
  }

  es::SampleLayout tokens_and_label() {
    return {
        {{"tokens", es::FieldType::kF32, 4, 1, 8}, {"label", es::FieldType::kI32, 4, 1, 1, 0, 7}}};
  }

  TEST_CASE("dropout, residual add and ReLU become one pass, and so do their gradients") {
    GraphBuilder b("net", 2, tokens_and_label());
    const TensorId x = b.linear("a", b.input("tokens"), {.out = 8});
    const TensorId y = b.dropout("drop", b.linear("b", x, {.out = 8}), 0.5);
    const TensorId z = b.linear("c", b.add("add", x, y, {.relu = true}), {.out = 8});
    b.cross_entropy("loss", z, b.input("label"));
    const Program program = compile(*b.finish({z}));
    // In the backward pass the gradient of the ReLU goes to x too, so dropout keeps a pass of its
    // own.
    CHECK(details(program, OpKind::kChain) ==
          std::vector<std::string>{"dropout, add, relu", "relu gradient", "dropout", "add"});
  }

  TEST_CASE("a chain whose value another operator reads keeps a pass of its own") {
    GraphBuilder b("net", 2, tokens_and_label());
    const TensorId x = b.tanh("tanh", b.linear("a", b.input("tokens"), {.out = 8}));
    const TensorId y = b.scale("scale", x, 2.0F);  // The gradient of tanh reads x.
    b.cross_entropy("loss", y, b.input("label"));
    const Program program = compile(*b.finish({y}));
    CHECK(details(program, OpKind::kChain) ==
          std::vector<std::string>{"tanh", "scale", "scale, tanh gradient"});
  }

  TEST_CASE("a batch norm includes the activation if nothing else reads its result") {
    GraphBuilder b("net", 2, {{{"image", es::FieldType::kF32, 3, 3, 4}}});
    TensorId x = b.relu("relu", b.batch_norm("bn1", b.input("image")));
    x = b.leaky_relu("leaky", b.batch_norm("bn2", x), kLeakySlope);
    x = b.leaky_relu("other slope", b.batch_norm("bn3", x), 0.5F);
    const TensorId both = b.batch_norm("bn4", x);
    x = b.add("sum", both, b.relu("second reader", both));
    b.mse("loss", x, b.input("image"));
    const Program program = compile(*b.finish({x}));
    CHECK(details(program, OpKind::kBatchNorm) ==
          std::vector<std::string>{"relu", "leaky_relu", "", ""});
  }

  TEST_CASE("programs and chains that follow each other become one program, also through views") {
    GraphBuilder b("net", 2, tokens_and_label());
    const TensorId x = b.linear("a", b.input("tokens"), {.out = 8});
    const TensorId row = b.constant("row", {8}, std::vector<float>(8, 0.5F));
    TensorId y = b.binary("add", Function::kAdd, x, row);
    y = b.scale("scale", b.unary("sin", Function::kSin, y), 2.0F);
    y = b.reshape("view", y, {8, 8});
    y = b.binary("twice", Function::kAdd, y, y);
    const TensorId z = b.linear("b", y, {.out = 8});
    b.cross_entropy("loss", b.reshape("logits", z, {2, 4, 1, 8}), b.input("label"));
    const Program program = compile(*b.finish({z}));
    // The gradient of sin reads its argument, so the first addition keeps a pass of its own.
    std::string programs;
    for (const std::string& detail : details(program, OpKind::kProgram)) programs += detail + "; ";
    CHECK(programs == "add; sin, mul, add; add, mul, cos, mul; ");
    CHECK(details(program, OpKind::kChain).empty());
  }

  TEST_CASE("consecutive moves become one move, also through views and with an upsampling") {
    const std::vector<OperatorCase> cases = es::test::network_cases();
    const auto found = std::find_if(cases.begin(), cases.end(),
                                    [](const OperatorCase& c) { return c.name == "rearranging"; });
    REQUIRE(found != cases.end());
    const Program program = compile(found->graph);
    std::string forward, backward;
    for (std::size_t i = 0; i < program.graph.ops.size(); ++i) {
      const Op& op = program.graph.ops[i];
      if (op.kind == OpKind::kMove || op.kind == OpKind::kUpsample2)
        (i < program.first_backward ? forward : backward) += op.name + "; ";
    }
    CHECK(forward == "windows; shuffle; pairs; pyramid; ");
    CHECK(backward == "pyramid; pairs; concat; image; pad h; ");
  }

  // The names of the forward operators that are no views.
  std::string forward_names(const Program& program) {
    std::string names;
    for (std::size_t i = 0; i < program.first_backward; ++i)
      if (!op_def(program.graph.ops[i].kind).is_view) names += program.graph.ops[i].name + "; ";
    return names;
  }

  TEST_CASE("a move runs behind the writer of its input if fewer floats are live there") {
    GraphBuilder b("net", 2, tokens_and_label());
    const TensorId x = b.input("tokens"), a = b.linear("a", x, {.out = 8});
    const TensorId wide = b.linear("wide", x, {.out = 16});
    const TensorId turned = b.permute("turn", b.reshape("view", a, {8, 4, 2, 1}), {0, 2, 3, 1});
    const TensorId narrow = b.linear("narrow", wide, {.out = 8});
    const TensorId y = b.add("sum", narrow, b.reshape("rows", turned, {2, 4, 1, 8}));
    b.cross_entropy("loss", y, b.input("label"));
    CHECK(forward_names(compile(*b.finish({y}))) == "a; turn; wide; narrow; sum; loss; ");
  }
}
