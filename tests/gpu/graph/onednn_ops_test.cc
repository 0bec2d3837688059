// Which operators of a program a vendor kernel runs, and a check that these kernels run.
#include "gpu/graph/onednn_ops.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/base/vendor_kernels.h"
#include "gpu/engine/engine.h"
#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/ops/operator.h"
#include "tests/gpu/support/onednn_class.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/gpu/support/training.h"
#include "tests/support/seed.h"

namespace es::gpu {
namespace {

using es::test::onednn_class;
using es::test::onednn_or_skip;

SampleLayout images() {
  return {{{.name = "image", .height = 16, .width = 16, .channels = 3},
           {.name = "label", .type = FieldType::kI32, .high = 9}}};
}

// A convolution of each kind that gpu/onednn/preference.h distinguishes, and a linear layer.
Program program() {
  GraphBuilder b("all_kinds", 2, images());
  TensorId x = b.conv2d("first", b.input("image"), {.out = 16, .pad = 1, .bias = true});
  x = b.conv2d("depthwise", x, {.out = 16, .pad = 1, .groups = 16});
  x = b.conv2d("shortcut", x, {.out = 24, .kernel = 1, .stride = 2});
  x = b.conv2d("dense", x, {.out = 8, .pad = 1});
  const TensorId logits = b.linear("head", b.flatten("flatten", x), {.out = 10});
  b.cross_entropy("loss", logits, b.input("label"));
  Result<Graph> graph = b.finish({logits});
  REQUIRE(graph.ok());
  return compile(*std::move(graph));
}

std::vector<std::string> bound(const Program& p, const OnednnOps& vendor) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < p.graph.ops.size(); ++i)
    if (!vendor.algorithm(i).empty())
      names.push_back(p.graph.ops[i].name + " " + op_name(p.graph.ops[i].kind));
  return names;
}

JobSpec job(DeterminismLevel level) {
  JobSpec spec;
  spec.max_p = 1;
  spec.batch_size = 4;
  spec.level = level;
  spec.model = {.name = "small_cnn", .width = 8, .classes = 10};
  return spec;
}

// As a worker creates it.
std::unique_ptr<Engine> engine_at(DeterminismLevel level, std::uint32_t threads = 1) {
  auto engine = Engine::create(
      job(level), images(),
      {.cpu_class = onednn_class(), .threads = threads, .vendor = allows_vendor(level)});
  REQUIRE(engine.ok());
  REQUIRE((*engine)->init_replica().ok());
  return *std::move(engine);
}

AlignedBuffer gradient(Engine& engine, DeterminismLevel level) {
  test::BatchSource batches(job(level), images());
  AlignedBuffer out(engine.table().total_floats());
  EstContext next;
  REQUIRE(engine.local_step(0, batches.make(0, 0), {}, out.data(), next, [](auto) {}).ok());
  return out;
}

// Provides no weight gradients, and refuses forward convolutions when they run, from the n-th run
// of each one on.
class RefusingLibrary final : public OnednnLibrary {
 public:
  explicit RefusingLibrary(int runs) : runs_(runs) {}
  std::string name() const override { return "Refusing 1.0"; }
  Result<std::unique_ptr<OnednnKernel>> conv(const ConvShape&, ConvPass pass, bool) const override {
    if (pass != ConvPass::kForward) return failure("Refusing: no kernel");
    return std::unique_ptr<OnednnKernel>(std::make_unique<Kernel>(runs_));
  }
  Result<std::unique_ptr<OnednnKernel>> gemm(const GemmShape&, bool) const override {
    return failure("Refusing: no kernel");
  }

 private:
  class Kernel final : public OnednnKernel {
   public:
    explicit Kernel(int runs) : left_(runs) {}
    std::string algorithm() const override { return "refusing"; }
    Status run(const float*, const float*, const float*, float*) override {
      if (left_-- > 0) return {};
      return failure("Refusing: not supported");
    }

   private:
    int left_;
  };
  int runs_;
};

bool same_bits(const AlignedBuffer& a, const AlignedBuffer& b) {
  return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

}  // namespace

TEST_SUITE("gpu/graph/onednn_ops") {
  TEST_CASE("preferred convolutions are bound, all other operators stay canonical") {
    const OnednnLibrary* library = onednn_or_skip();
    if (library == nullptr) return;
    const Program p = program();
    const OnednnOps vendor(p, *library, onednn_class());
    std::vector<std::string> expected{"first conv2d"};
    if (onednn_class() == CpuClass::kAvx2) expected.push_back("depthwise conv2d");
    for (const char* name : {"shortcut", "depthwise", "first"})
      expected.push_back(std::string(name) + " conv2d weight gradient");
    CHECK(bound(p, vendor) == expected);
    CHECK(vendor.count() == expected.size());
    CHECK(vendor.library() == library->name());
  }

  TEST_CASE("without a library nothing is bound, and nothing runs") {
    const Program p = program();
    const OnednnOps none;
    CHECK(none.count() == 0);
    CHECK(none.library().empty());
    CHECK(bound(p, none).empty());
    for (std::size_t i = 0; i < p.graph.ops.size(); ++i) CHECK_FALSE(*none.run(i, p.graph, {}));
  }

  TEST_CASE("operators that a library refuses run on the canonical kernels, with a note") {
    test::StepRig rig(program(), test::seed("vendor refuses"));
    Executor executor(program(), kernel_table(CpuClass::kScalar), rig.buckets, rig.parallel,
                      OnednnOps(program(), RefusingLibrary(0), CpuClass::kAvx512));
    CHECK(executor.vendor_library().empty());
    const std::vector<std::string> refused = executor.vendor_refusals();
    REQUIRE_FALSE(refused.empty());
    CHECK(refused.front().ends_with(
        "(conv2d weight gradient): Refusing: no kernel, so the canonical kernel runs"));
    CHECK(refused.back() ==
          "first (conv2d): Refusing: not supported, so the canonical kernel runs");
    for (std::size_t i = 0; i < executor.graph().ops.size(); ++i)
      CHECK(executor.vendor_algorithm(i).empty());
    const auto expected = rig.step_bits();
    REQUIRE(executor.run_local_step(rig.step(), [](std::uint32_t) {}).ok());
    std::vector<std::uint32_t> gradients(static_cast<std::size_t>(rig.grads.floats()));
    std::memcpy(gradients.data(), rig.grads.data(), rig.grads.bytes());
    CHECK(std::equal(gradients.begin(), gradients.end(), expected.begin() + 1));  // After the loss.
  }

  TEST_CASE("a kernel that fails later is an error of the step, and of an evaluation") {
    test::StepRig rig(program(), test::seed("vendor refuses later"));
    Executor executor(program(), kernel_table(CpuClass::kScalar), rig.buckets, rig.parallel,
                      OnednnOps(program(), RefusingLibrary(1), CpuClass::kAvx512));
    CHECK(executor.vendor_library() == "Refusing 1.0");
    const auto step = executor.run_local_step(rig.step(), [](std::uint32_t) {});
    REQUIRE_FALSE(step.ok());
    CHECK(step.error().message == "first: Refusing: not supported");
    CHECK_FALSE(executor.run_eval(rig.params.data(), rig.input(), nullptr).ok());
  }

  TEST_CASE("D0 and D1 use the same vendor kernels, D2 none") {
    if (onednn_or_skip() == nullptr) return;
    const auto d0 = engine_at(DeterminismLevel::kD0), d1 = engine_at(DeterminismLevel::kD1);
    const auto d2 = engine_at(DeterminismLevel::kD2);
    REQUIRE_FALSE(d1->vendor_ops().empty());
    CHECK(d0->vendor_ops() == d1->vendor_ops());
    CHECK(d1->vendor_ops().front().find("conv1 (conv2d): ") == 0);
    CHECK_FALSE(d1->vendor_library().empty());
    CHECK(d2->vendor_ops().empty());
    CHECK(d2->vendor_library().empty());
  }

  TEST_CASE(
      "a step at D1 repeats its bits with any number of threads, and they are near those of D2") {
    if (onednn_or_skip() == nullptr) return;
    const AlignedBuffer d1 = gradient(*engine_at(DeterminismLevel::kD1), DeterminismLevel::kD1);
    for (const std::uint32_t threads : {1U, 3U})
      CHECK(same_bits(gradient(*engine_at(DeterminismLevel::kD1, threads), DeterminismLevel::kD1),
                      d1));
    const AlignedBuffer d2 = gradient(*engine_at(DeterminismLevel::kD2), DeterminismLevel::kD2);
    CHECK_FALSE(same_bits(d1, d2));  // So the kernels of the vendor did run.
    double difference = 0, size = 0;
    for (std::int64_t i = 0; i < d1.floats(); ++i) {
      const double a = d1.data()[i], b = d2.data()[i];
      difference += (a - b) * (a - b);
      size += b * b;
    }
    CHECK(std::sqrt(difference / size) < 1e-4);
  }
}

}  // namespace es::gpu
