// Exact products in whole programs.
#include "gpu/graph/arithmetic.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "gpu/graph/builder.h"
#include "gpu/graph/dense_op.h"
#include "gpu/graph/fuse.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/arithmetic") {
  using namespace es::gpu;
  using es::CpuClass;
  using es::FieldType;
  using es::test::StepRig;

  // 600 rows, 70 classes, and a matrix product.
  Graph model(const std::string& arithmetic, bool bf16 = false) {
    constexpr std::int64_t kRows = 300, kClasses = 70, kWidth = 24;
    GraphBuilder b("language", 2,
                   {{{"ids", FieldType::kI32, kRows, 1, 1, 0, kClasses - 1},
                     {"label", FieldType::kI32, kRows, 1, 1, 0, kClasses - 1}}});
    TensorId x = b.embedding("words", b.input("ids"), kClasses, kWidth, {});
    x = b.gelu("gelu", b.linear("up", x, {.out = kWidth}));
    const TensorId square = b.reshape("square", x, {2, 1, kRows, kWidth});
    x = b.reshape("rows",
                  b.matmul("mixed", square, b.linear("other", square, {.out = kWidth}), true),
                  {2, kRows, kRows});
    b.cross_entropy("loss", b.linear("head", x, {.out = kClasses}), b.input("label"));
    Graph graph = *b.finish({x});
    graph.bf16 = bf16;
    return choose_arithmetic(std::move(graph), arithmetic);
  }

  TEST_CASE(
      "exact products have the same bits in every class, on any threads, in whole and in parts") {
    const std::uint64_t seed = es::test::seed("exact programs");
    std::vector<std::vector<std::uint32_t>> all;
    for (const bool bf16 : {false, true}) {
      for (const char* arithmetic : {"fp32", "x15", "x22"}) {
        const auto expected = StepRig(compile(model(arithmetic, bf16)), seed).step_bits();
        all.push_back(expected);
        for (const CpuClass cpu_class : es::supported_cpu_classes())
          for (const std::uint32_t threads : {1, 3})
            for (const std::int64_t chunked : {std::int64_t{1}, INT64_MAX}) {
              CAPTURE(arithmetic);
              CAPTURE(int(cpu_class));
              StepRig rig(compile(model(arithmetic, bf16), chunked), seed,
                          {.cpu_class = cpu_class, .threads = threads});
              CHECK(rig.step_bits() == expected);
            }
      }
    }
    std::ranges::sort(all);
    CHECK(std::ranges::unique(all).empty());
  }

  TEST_CASE("under x15 the gradients of the layer before a cross entropy are computed in x22") {
    for (const auto& [name, plain, head] :
         {std::tuple{"fp32", Arithmetic::kFp32, Arithmetic::kFp32},
          {"x15", Arithmetic::kX15, Arithmetic::kX22},
          {"x22", Arithmetic::kX22, Arithmetic::kX22}}) {
      const Program program = compile(model(name));
      int products = 0;
      for (const Op& op : program.graph.ops) {
        if (!is_gemm(op.kind)) continue;
        const bool gradient = op.kind == OpKind::kLinearDgrad || op.kind == OpKind::kLinearWgrad;
        CAPTURE(op.name);
        CHECK(product_of(program.graph, op).gemm.arithmetic ==
              (op.name == "head" && gradient ? head : plain));
        CHECK(is_library_product(program.graph, op.kind) == (plain == Arithmetic::kFp32));
        ++products;
      }
      CHECK(products == 12);
    }
  }
}
