// The executor of the CUDA device compared with that of the CPU: every operator gives the same
// bytes. It runs on host memory, or on a GPU (test_device.h).
#include "gpu/cuda/device_executor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>

#include "gpu/cuda/launch_host.h"
#include "gpu/graph/fuse.h"
#include "proto/base/check.h"
#include "tests/gpu/cuda/random_networks.h"
#include "tests/gpu/cuda/small_device.h"
#include "tests/gpu/cuda/test_device.h"
#include "tests/gpu/graph/operator_cases.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/cuda/device_executor") {
  using namespace es::gpu;
  using es::test::OperatorCase;
  using es::test::StepRig;

  std::unique_ptr<StepRunner> on_device(const StepRig& rig, std::unique_ptr<cuda::Device> device) {
    auto runner = cuda::DeviceExecutor::create(rig.executor->program(), std::move(device),
                                               rig.buckets, nullptr);
    ES_CHECK_MSG(runner.ok(), runner.ok() ? "" : runner.error().message);
    return *std::move(runner);
  }
  std::unique_ptr<StepRunner> on_device(const StepRig& rig) {
    return on_device(rig, es::test::open_test_device());
  }

  std::vector<std::uint32_t> bits(const float* values, std::size_t count) {
    std::vector<std::uint32_t> words(count);
    std::memcpy(words.data(), values, count * sizeof(float));
    return words;
  }

  // Loss, gradients and statistics of a local step. Checks that buckets are reported once, in order
  // and complete.
  std::vector<std::uint32_t> step_bits(StepRunner & runner, StepRig & rig) {
    std::fill_n(rig.grads.data(), rig.grads.floats(), std::numeric_limits<float>::quiet_NaN());
    std::uint32_t next = 0;
    const auto result = runner.run_local_step(rig.step(), [&](std::uint32_t bucket) {
      CHECK(bucket == next++);
      const Bucket& b = rig.buckets[bucket];
      CHECK(std::none_of(rig.grads.data() + b.begin, rig.grads.data() + b.end,
                         [](float g) { return g != g; }));
    });
    REQUIRE(result.ok());
    CHECK(result->fault.op == nullptr);
    CHECK(next == rig.buckets.size());
    std::vector<float> all{result->loss};
    all.insert(all.end(), rig.grads.data(), rig.grads.data() + rig.grads.floats());
    all.insert(all.end(), rig.next_stats.begin(), rig.next_stats.end());
    return bits(all.data(), all.size());
  }

  std::vector<std::uint32_t> evaluation_bits(StepRunner & runner, const StepRig& rig) {
    REQUIRE(runner.run_eval(rig.params.data(), rig.input(), nullptr).ok());
    std::vector<TensorId> results = rig.graph().outputs;
    results.push_back(rig.graph().row_loss);
    std::vector<std::uint32_t> all;
    for (const TensorId t : results) {
      const auto values = bits(runner.values(t).data(), runner.values(t).size());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  TEST_CASE("every operator gives the CPU's bits: loss, gradients, statistics, evaluation") {
    std::vector<OperatorCase> cases = es::test::operator_cases();
    for (OperatorCase& c : es::test::network_cases()) cases.push_back(std::move(c));
    const std::size_t count = cases.size();
    for (std::size_t i = 0; i < count; ++i) {
      cases.push_back(cases[i]);
      cases.back().name += ", bf16";
      cases.back().graph.bf16 = true;
    }
    const std::uint64_t seed = es::test::seed("device operators");
    for (const OperatorCase& c : cases) {
      CAPTURE(c.name);
      StepRig rig(compile(c.graph), seed);
      const auto device = on_device(rig);
      const auto step = rig.step_bits();
      CHECK(step_bits(*device, rig) == step);
      CHECK(evaluation_bits(*device, rig) == rig.evaluation_bits());
      // The run before leaves no trace. The step is recorded for one input, then for the other, and
      // then launched.
      for (int i = 0; i < 4; ++i) CHECK(step_bits(*device, rig) == step);
    }
  }

  TEST_CASE("losses in chunks of rows give the CPU's bits of whole ones") {
    const std::uint64_t seed = es::test::seed("device chunked losses");
    std::vector<OperatorCase> cases = es::test::chunked_loss_cases();
    for (const OperatorCase& c : es::test::chunked_loss_cases()) {
      cases.push_back({c.name + ", bf16", c.graph});
      cases.back().graph.bf16 = true;
    }
    for (const OperatorCase& c : cases) {
      CAPTURE(c.name);
      StepRig whole(compile(c.graph), seed), chunked(compile(c.graph, 1), seed);
      const auto device = on_device(chunked);
      CHECK(step_bits(*device, chunked) == whole.step_bits());
      CHECK(evaluation_bits(*device, chunked) == whole.evaluation_bits());
      CHECK(step_bits(*device, chunked) == whole.step_bits());
    }
  }

  TEST_CASE("networks of random sizes give the CPU's bits") {
    const std::uint64_t seed = es::test::seed("device networks");
    const std::int64_t side = std::getenv("ES_GPU") == nullptr ? 10 : 40;
    for (int i = 0; i < es::test::random_networks(); ++i) {
      CAPTURE(i);
      std::mt19937_64 random(seed + static_cast<std::uint64_t>(i));
      const Graph graph = i % 2 == 0 ? es::test::random_image_network(random, side)
                                     : es::test::random_token_network(random, side);
      StepRig rig(compile(graph), seed);
      const auto device = on_device(rig);
      CHECK(step_bits(*device, rig) == rig.step_bits());
      CHECK(evaluation_bits(*device, rig) == rig.evaluation_bits());
    }
  }

  TEST_CASE("parameters are copied to the device when they have changed") {
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), es::test::seed("device parameters"));
    const auto device = on_device(rig);
    const auto before = step_bits(*device, rig);
    for (std::int64_t i = 0; i < rig.graph().table[0].count; ++i) rig.params.data()[i] *= 2.0F;
    device->params_changed();
    const auto after = step_bits(*device, rig);
    CHECK(after != before);
    CHECK(after == rig.step_bits());
  }

  TEST_CASE("a value that is not finite is traced to the same operator as on the CPU") {
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), es::test::seed("device fault"));
    std::fill_n(rig.params.data() + rig.graph().table[0].offset, rig.graph().table[0].count,
                std::numeric_limits<float>::max());
    const auto ignore = [](std::uint32_t) { FAIL("bucket reported"); };
    const LocalStepResult expected = *rig.executor->run_local_step(rig.step(), ignore);
    REQUIRE(expected.fault.op != nullptr);
    const auto device = on_device(rig);
    const auto found = device->run_local_step(rig.step(), ignore);
    REQUIRE(found.ok());
    REQUIRE(found->fault.op != nullptr);
    CHECK(found->fault.op->name == expected.fault.op->name);
    CHECK(found->fault.op->kind == expected.fault.op->kind);
    CHECK(found->fault.param == expected.fault.param);
  }

  // The canonical kernels in place of those of a library.
  class FakeKernel final : public cuda::DeviceVendorKernel {
   public:
    using Run = std::function<es::Status(cuda::Stream, const float*, const float*, float*, float*)>;
    explicit FakeKernel(Run run) : run_(std::move(run)) {}
    std::string algorithm() const override { return "fake 1"; }
    std::size_t workspace_bytes() const override { return kBytes; }
    es::Status run(cuda::Stream stream, const float* a, const float* b, float* out,
                   void* ws) override {
      static_cast<cuda::HostQueue*>(stream.handle)->add([ws] { std::memset(ws, 0xff, kBytes); });
      return run_(stream, a, b, out, static_cast<float*>(ws));
    }

   private:
    static constexpr std::size_t kBytes = 4 << 20;
    Run run_;
  };

  // The kernels that the library does not provide.
  struct Refusing {
    bool making = false;                // The kernel of a data gradient, when it is bound.
    std::optional<int> running_from{};  // A convolution, from its n-th run on.
  };

  class FakeLibrary final : public cuda::DeviceVendorLibrary {
   public:
    using Made = es::Result<std::unique_ptr<cuda::DeviceVendorKernel>>;
    explicit FakeLibrary(Refusing refusing = {}) : refusing_(refusing) {}
    std::string name() const override { return "Fake 1.0"; }
    std::vector<std::string> not_working() const override { return {"Other does not work here"}; }
    Made conv(const ConvShape& s, ConvPass pass) override {
      if (pass == ConvPass::kDataGradient && refusing_.making)
        return es::failure("no such algorithm");
      if (pass != ConvPass::kForward) return std::unique_ptr<cuda::DeviceVendorKernel>();
      return kernel([s, runs = 0, last = refusing_.running_from](auto stream, auto* x, auto* w,
                                                                 auto* y, auto* ws) mutable {
        if (last && runs++ >= *last) return es::Status(es::failure("fake 1: not supported"));
        cuda::host_kernels().conv_fwd(stream, s, x, w, nullptr, y, ws);
        return es::Status();
      });
    }
    Made gemm(const MatmulShape& s) override {
      return kernel([s](auto stream, auto* a, auto* b, auto* c, auto* ws) {
        cuda::host_kernels().gemm(stream, s.gemm, s.count, s.a_step, s.b_step, s.y_step, a, b,
                                  nullptr, c, ws);
        return es::Status();
      });
    }

   private:
    static Made kernel(FakeKernel::Run run) {
      return std::unique_ptr<cuda::DeviceVendorKernel>(
          std::make_unique<FakeKernel>(std::move(run)));
    }
    Refusing refusing_;
  };

  TEST_CASE(
      "a vendor library runs the operators that it has, with biases, and the record names them") {
    for (const OperatorCase& c : es::test::network_cases()) {
      CAPTURE(c.name);
      StepRig rig(compile(c.graph), es::test::seed("device vendor"));
      const auto runner = *cuda::DeviceExecutor::create(
          compile(c.graph), cuda::open_host_device(), rig.buckets, std::make_unique<FakeLibrary>());
      CHECK(runner->vendor_library() == "Fake 1.0");
      for (std::size_t i = 0; i < runner->graph().ops.size(); ++i) {
        const OpKind kind = runner->graph().ops[i].kind;
        const bool there = kind == OpKind::kConv2d || kind == OpKind::kLinear ||
                           kind == OpKind::kLinearDgrad || kind == OpKind::kLinearWgrad ||
                           kind == OpKind::kMatmul;
        CHECK(runner->vendor_algorithm(i) == (there ? "fake 1" : ""));
      }
      const auto expected = rig.step_bits();
      for (int i = 0; i < 3; ++i) CHECK(step_bits(*runner, rig) == expected);
    }
  }

  // Of a network with convolutions and linear layers.
  std::size_t count_of(const StepRunner& runner, OpKind kind) {
    return static_cast<std::size_t>(std::count_if(runner.graph().ops.begin(),
                                                  runner.graph().ops.end(),
                                                  [&](const Op& op) { return op.kind == kind; }));
  }

  TEST_CASE("a tensor with more elements than kernels number is refused before anything runs") {
    StepRig rig(compile(es::test::network_cases()[0].graph), es::test::seed("large tensor"));
    Program program = rig.executor->program();
    const Op& op = program.graph.ops[program.graph.ops.size() / 2];
    program.graph.tensors[static_cast<std::size_t>(op.out[0])].shape =
        TensorShape{{1 << 16, 1 << 16}};
    const auto refused = cuda::DeviceExecutor::create(
        std::move(program), es::test::open_test_device(), rig.buckets, nullptr);
    REQUIRE(!refused.ok());
    CHECK(refused.error().message.find(": a result of 4294967296 elements: a GPU takes at most "
                                       "4294966272") != std::string::npos);
  }

  TEST_CASE("operators that a vendor library refuses run on the canonical kernels, with a note") {
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), es::test::seed("device vendor refuses"));
    const Refusing refusing{.making = true, .running_from = 0};
    const auto runner =
        cuda::DeviceExecutor::create(compile(graph), cuda::open_host_device(), rig.buckets,
                                     std::make_unique<FakeLibrary>(refusing));
    REQUIRE(runner.ok());
    const std::size_t forward = count_of(**runner, OpKind::kConv2d);
    const std::size_t data_gradient = count_of(**runner, OpKind::kConvDgrad);
    REQUIRE(forward > 0);
    REQUIRE(data_gradient > 0);
    const auto& refusals = (*runner)->vendor_refusals();
    REQUIRE(refusals.size() == 1 + data_gradient + forward);
    CHECK(refusals.front() == "Other does not work here");
    CHECK(refusals[1].ends_with(": no such algorithm, so the canonical kernel runs"));
    CHECK(refusals.back().ends_with(": fake 1: not supported, so the canonical kernel runs"));
    for (std::size_t i = 0; i < (*runner)->graph().ops.size(); ++i)
      if (is_conv((*runner)->graph().ops[i].kind)) CHECK((*runner)->vendor_algorithm(i) == "");
    const auto expected = rig.step_bits();
    for (int i = 0; i < 3; ++i) CHECK(step_bits(**runner, rig) == expected);
  }

  TEST_CASE("a vendor kernel that fails later ends the step with an error that names it") {
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), es::test::seed("device vendor refuses later"));
    const auto runner =
        *cuda::DeviceExecutor::create(compile(graph), cuda::open_host_device(), rig.buckets,
                                      std::make_unique<FakeLibrary>(Refusing{.running_from = 2}));
    CHECK(runner->vendor_refusals().size() == 1);
    CHECK(step_bits(*runner, rig) == rig.step_bits());
    const auto result = runner->run_local_step(rig.step(), [](std::uint32_t) {});
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message == "host: fake 1: not supported");
  }

  TEST_CASE("with a vendor library too, a value that is not finite is traced to the operator") {
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), es::test::seed("device vendor fault"));
    const auto ignore = [](std::uint32_t) {};
    const auto runner = *cuda::DeviceExecutor::create(compile(graph), cuda::open_host_device(),
                                                      rig.buckets, std::make_unique<FakeLibrary>());
    CHECK(runner->run_local_step(rig.step(), ignore)->fault.op == nullptr);
    std::fill_n(rig.params.data() + rig.graph().table[0].offset, rig.graph().table[0].count,
                std::numeric_limits<float>::max());
    runner->params_changed();
    const LocalStepResult expected = *rig.executor->run_local_step(rig.step(), ignore);
    const auto found = runner->run_local_step(rig.step(), ignore);
    REQUIRE(found.ok());
    REQUIRE(found->fault.op != nullptr);
    CHECK(found->fault.op->name == expected.fault.op->name);
    CHECK(found->fault.op->kind == expected.fault.op->kind);
    CHECK(found->fault.param == expected.fault.param);
  }

  TEST_CASE("a lost device is an error of the step, and of every later one") {
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), es::test::seed("device lost"));
    std::unique_ptr<cuda::Device> owned = es::test::open_test_device();
    cuda::Device* const device = owned.get();
    const auto runner = on_device(rig, std::move(owned));
    CHECK_FALSE(step_bits(*runner, rig).empty());
    device->lose(es::failure("GPU 0: fell off the bus"));
    for (int i = 0; i < 2; ++i) {
      const auto result = runner->run_local_step(rig.step(), [](std::uint32_t) {});
      REQUIRE_FALSE(result.ok());
      CHECK(result.error().message == "GPU 0: fell off the bus");
    }
    CHECK_FALSE(runner->run_eval(rig.params.data(), rig.input(), nullptr).ok());
  }

  TEST_CASE("an error about missing device memory names the purpose of the memory") {
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), es::test::seed("device memory"));
    const auto runner = cuda::DeviceExecutor::create(
        compile(graph), std::make_unique<es::test::SmallDevice>(1000), rig.buckets, nullptr);
    REQUIRE_FALSE(runner.ok());
    CHECK(runner.error().message.find("activations and their gradients") != std::string::npos);
  }
}
