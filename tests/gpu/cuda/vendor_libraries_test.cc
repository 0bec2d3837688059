// cuBLAS and cuDNN that refuse calls, return unwanted algorithms and leave errors behind. They are
// stand-ins (fake_vendor.h) with a device on host memory.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "gpu/cuda/channel.h"
#include "gpu/cuda/device_executor.h"
#include "gpu/graph/dense_op.h"
#include "gpu/graph/fuse.h"
#include "tests/gpu/cuda/fake_vendor.h"
#include "tests/gpu/cuda/forwarding_device.h"
#include "tests/gpu/graph/operator_cases.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

namespace es::gpu::cuda {
namespace {

using test::FakeCublas;
using test::FakeCudnn;
using test::StepRig;

// The settings of a stand-in. The program loads the same library later.
template <class Fake>
Fake& settings(const std::string& soname, const char* function) {
  void* const library = ::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, ::dlerror());
  void* const symbol = ::dlsym(library, function);
  REQUIRE_MESSAGE(symbol != nullptr, soname, " is not the stand-in");
  return *reinterpret_cast<Fake* (*)()>(symbol)();
}

void convolve(const ConvShape& s, ConvPass pass, const float* a, const float* b, float* out) {
  const DeviceKernels& k = host_kernels();
  const Stream now;
  std::vector<float> ws(std::max({k.conv_fwd_workspace_floats(s), k.conv_dgrad_workspace_floats(s),
                                  k.conv_wgrad_workspace_floats(s), std::size_t{1}}));
  if (pass == ConvPass::kForward) return k.conv_fwd(now, s, a, b, nullptr, out, ws.data());
  if (pass == ConvPass::kDataGradient) return k.conv_dgrad(now, s, a, b, out, ws.data());
  k.conv_wgrad(now, s, a, b, out, ws.data());
}

void multiply(const GemmShape& s, const float* a, const float* b, float* c) {
  std::vector<float> ws(host_kernels().gemm_workspace_floats(s, 1) + 1);
  host_kernels().gemm(Stream{}, s, 1, 0, 0, 0, a, b, nullptr, c, ws.data());
}

// Both libraries in full, with the canonical kernels instead of their own.
struct Fakes {
  FakeCudnn& cudnn = settings<FakeCudnn>("libcudnn.so." ES_CUDNN_MAJOR, "es_fake_cudnn");
  FakeCublas& cublas = settings<FakeCublas>("libcublas.so." ES_CUBLAS_MAJOR, "es_fake_cublas");
  Fakes() {
    cudnn = FakeCudnn{.proposals = {{.algorithm = 1}},
                      .scratch = [](int, cudnnMathType_t) { return std::size_t{64}; },
                      .runs = {},
                      .compute = convolve,
                      .leaves = {},
                      .ran_with = {}};
    cublas = FakeCublas{.runs = {}, .compute = multiply, .leaves = {}};
  }
  ~Fakes() {
    cudnn = {};
    cublas = {};
  }
};

// Like a GPU: an error that is pending when the device checks for one is an error of the device.
class LastError final : public test::ForwardingDevice {
 public:
  LastError() : ForwardingDevice(open_host_device()) {}
  void leave() { last_ = true; }
  Status check() override {
    if (std::exchange(last_, false)) lose(failure("a kernel: an error that a library left"));
    return ForwardingDevice::check();
  }
  Status synchronise(Stream s) override {
    (void)check();
    return ForwardingDevice::synchronise(s);
  }
  Status call_library(const std::function<Status()>& call) override {
    (void)check();
    const Status done = call();
    last_ = false;
    return done;
  }

 private:
  bool last_ = false;
};

// A GPU, or a part of one, with this number of multiprocessors.
class Multiprocessors final : public test::ForwardingDevice {
 public:
  explicit Multiprocessors(int count) : ForwardingDevice(open_host_device()), count_(count) {}
  int multiprocessors() const override { return count_; }

 private:
  int count_;
};

Graph network() {
  return test::network_cases()[0].graph;
}

std::unique_ptr<DeviceExecutor> executor_on(std::unique_ptr<Device> device, const StepRig& rig,
                                            VendorMath math = VendorMath::kFp32) {
  auto library = open_vendor_library(*device, math);
  REQUIRE(library.ok());
  auto made = DeviceExecutor::create(rig.executor->program(), std::move(device), rig.buckets,
                                     *std::move(library));
  REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message));
  return *std::move(made);
}

StepRig rig(bool bf16 = false) {
  Graph graph = network();
  graph.bf16 = bf16;
  return StepRig(compile(std::move(graph)), test::seed("vendor libraries"));
}

// A step has the bits of the canonical kernels, which replace those of the library. Statistics and
// loss are compared together with the gradients.
void check_step(StepRunner& runner, StepRig& rig) {
  const auto expected = rig.step_bits();
  std::fill_n(rig.grads.data(), rig.grads.floats(), std::numeric_limits<float>::quiet_NaN());
  const auto result = runner.run_local_step(rig.step(), [](std::uint32_t) {});
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().message));
  std::vector<float> all{result->loss};
  all.insert(all.end(), rig.grads.data(), rig.grads.data() + rig.grads.floats());
  all.insert(all.end(), rig.next_stats.begin(), rig.next_stats.end());
  REQUIRE(all.size() == expected.size());
  CHECK(std::memcmp(all.data(), expected.data(), all.size() * sizeof(float)) == 0);
}

// The algorithms of the operators of one kind.
std::vector<std::string> algorithms(const StepRunner& runner, bool (*of)(OpKind)) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < runner.graph().ops.size(); ++i)
    if (of(runner.graph().ops[i].kind)) names.push_back(runner.vendor_algorithm(i));
  return names;
}
bool all_end(const std::vector<std::string>& names, const std::string& end) {
  return !names.empty() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return !name.empty() && name.ends_with(end);
  });
}
bool none(const std::vector<std::string>& names) {
  return !names.empty() && std::all_of(names.begin(), names.end(),
                                       [](const std::string& name) { return name.empty(); });
}

TEST_SUITE("gpu/cuda/vendor_libraries") {
  TEST_CASE("the record has the number of multiprocessors, on which the bits of libraries depend") {
    Fakes fakes;
    StepRig r = rig();
    for (const int count : {132, 66})
      CHECK(executor_on(std::make_unique<Multiprocessors>(count), r)->vendor_library() ==
            "cuBLAS 13.1.0, cuDNN 9.19.0, " + std::to_string(count) + " multiprocessors");
  }

  TEST_CASE("both libraries run the operators that they have, and the record names them") {
    Fakes fakes;
    StepRig r = rig();
    const auto runner = executor_on(open_host_device(), r);
    CHECK(runner->vendor_library() == "cuBLAS 13.1.0, cuDNN 9.19.0");
    CHECK(runner->vendor_refusals().empty());
    CHECK(all_end(algorithms(*runner, is_conv), " 1"));
    CHECK(all_end(algorithms(*runner, is_gemm), "cublasSgemmStridedBatched"));
    CHECK(fakes.cublas.math == CUBLAS_PEDANTIC_MATH);
    for (int i = 0; i < 3; ++i) check_step(*runner, r);
    CHECK(fakes.cublas.ran > 0);
  }

  TEST_CASE("with bf16 the libraries run everything as well, linear layers on rounded weights") {
    Fakes fakes;
    StepRig r = rig(true);
    const auto has = [&](OpKind kind) {
      return std::ranges::any_of(r.graph().ops, [&](const Op& op) { return op.kind == kind; });
    };
    REQUIRE((has(OpKind::kLinear) && has(OpKind::kLinearDgrad) && has(OpKind::kLinearWgrad)));
    const auto runner = executor_on(open_host_device(), r, VendorMath::kTf32);
    CHECK(runner->vendor_refusals().empty());
    CHECK(all_end(algorithms(*runner, is_conv), " 1"));
    CHECK(all_end(algorithms(*runner, is_gemm), "cublasSgemmStridedBatched tf32"));
    // The stand-in multiplies what it gets: without a rounded weight it has other bits.
    for (int i = 0; i < 3; ++i) check_step(*runner, r);
    CHECK(fakes.cublas.ran > 0);
  }

  TEST_CASE("in fp32 an algorithm of the default arithmetic is taken, with fused multiply-adds") {
    Fakes fakes;
    fakes.cudnn.proposals = {{.algorithm = 0, .math = CUDNN_TENSOR_OP_MATH},
                             {.algorithm = 2, .math = CUDNN_DEFAULT_MATH},
                             {.algorithm = 1, .math = CUDNN_FMA_MATH}};
    StepRig r = rig();
    const auto runner = executor_on(open_host_device(), r);
    CHECK(all_end(algorithms(*runner, is_conv), " 2"));
    check_step(*runner, r);
    CHECK(!fakes.cudnn.ran_with.empty());
    for (const cudnnMathType_t math : fakes.cudnn.ran_with) CHECK(math == CUDNN_FMA_MATH);
  }

  TEST_CASE("with TF32 the proposed arithmetic is taken, and the record names it") {
    Fakes fakes;
    fakes.cudnn.proposals = {{.algorithm = 1, .math = CUDNN_DEFAULT_MATH}};
    StepRig r = rig();
    const auto runner = executor_on(open_host_device(), r, VendorMath::kTf32);
    CHECK(all_end(algorithms(*runner, is_conv), " 1 tf32"));
    CHECK(fakes.cublas.math == CUBLAS_TF32_TENSOR_OP_MATH);
    check_step(*runner, r);
    for (const cudnnMathType_t math : fakes.cudnn.ran_with) CHECK(math == CUDNN_DEFAULT_MATH);
  }

  TEST_CASE("the scratch memory is that of the arithmetic in which an algorithm runs") {
    Fakes fakes;
    fakes.cudnn.proposals = {{.algorithm = 0, .math = CUDNN_DEFAULT_MATH},
                             {.algorithm = 2, .math = CUDNN_DEFAULT_MATH}};
    fakes.cudnn.scratch = [](int algorithm, cudnnMathType_t math) {
      if (math == CUDNN_DEFAULT_MATH) return std::size_t{0};
      return algorithm == 0 ? std::size_t{2} << 30 : std::size_t{1} << 20;
    };
    StepRig r = rig();
    const auto runner = executor_on(open_host_device(), r);
    // The other algorithm needs more than is allowed.
    CHECK(all_end(algorithms(*runner, is_conv), " 2"));
    CHECK(runner->workspace_floats() >= (1 << 20) / 4);
    check_step(*runner, r);
  }

  TEST_CASE("without a deterministic algorithm the canonical kernels run, with a note") {
    Fakes fakes;
    fakes.cudnn.proposals = {{.algorithm = 0, .determinism = CUDNN_NON_DETERMINISTIC}};
    StepRig r = rig();
    const auto runner = executor_on(open_host_device(), r);
    CHECK(none(algorithms(*runner, is_conv)));
    CHECK(runner->vendor_refusals().size() == algorithms(*runner, is_conv).size());
    CHECK(runner->vendor_refusals()[0].find("of 1 algorithms that cuDNN proposes none is "
                                            "deterministic") != std::string::npos);
    check_step(*runner, r);
  }

  TEST_CASE("a convolution that fails when it runs uses the canonical kernel then, with a note") {
    Fakes fakes;
    fakes.cudnn.runs = [](ConvPass pass) {
      return pass == ConvPass::kDataGradient ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    };
    StepRig r = rig();
    const auto runner = executor_on(open_host_device(), r);
    const auto data_gradient = [](OpKind kind) { return kind == OpKind::kConvDgrad; };
    const auto forward = [](OpKind kind) { return kind == OpKind::kConv2d; };
    CHECK(none(algorithms(*runner, data_gradient)));
    CHECK(all_end(algorithms(*runner, forward), " 1"));
    CHECK(runner->vendor_refusals().size() == algorithms(*runner, data_gradient).size());
    for (const std::string& line : runner->vendor_refusals())
      CHECK(
          line.ends_with("(conv2d data gradient): cudnnConvolutionBackwardData: fake: not "
                         "supported, so the canonical kernel runs"));
    for (int i = 0; i < 3; ++i) check_step(*runner, r);
  }

  TEST_CASE("a product that fails when it runs uses the canonical kernel then, with a note") {
    Fakes fakes;
    fakes.cublas.runs = [] { return CUBLAS_STATUS_NOT_SUPPORTED; };
    StepRig r = rig();
    const auto runner = executor_on(open_host_device(), r);
    CHECK(none(algorithms(*runner, is_gemm)));
    CHECK(runner->vendor_refusals().size() == algorithms(*runner, is_gemm).size());
    CHECK(runner->vendor_refusals()[0].ends_with(
        "cublasSgemmStridedBatched: fake: not supported, so the canonical kernel runs"));
    check_step(*runner, r);
  }

  TEST_CASE("errors that successful calls leave behind do not lose the device") {
    Fakes fakes;
    auto device = std::make_unique<LastError>();
    fakes.cudnn.leaves = fakes.cublas.leaves = [d = device.get()] { d->leave(); };
    StepRig r = rig();
    const auto runner = executor_on(std::move(device), r);
    CHECK(runner->vendor_refusals().empty());
    for (int i = 0; i < 3; ++i) check_step(*runner, r);
    fakes.cudnn.leaves = fakes.cublas.leaves = {};
  }

  TEST_CASE("an error of the device before a call of a library is reported") {
    Fakes fakes;
    auto owned = std::make_unique<LastError>();
    LastError* const device = owned.get();
    StepRig r = rig();
    const auto runner = executor_on(std::move(owned), r);
    device->leave();
    CHECK_FALSE(runner->run_local_step(r.step(), [](std::uint32_t) {}).ok());
  }

  TEST_CASE("a library that does not start is not used, with a note") {
    Fakes fakes;
    StepRig r = rig();
    fakes.cudnn.starts = CUDNN_STATUS_NOT_INITIALIZED;
    auto runner = executor_on(open_host_device(), r);
    CHECK(runner->vendor_library() == "cuBLAS 13.1.0");
    CHECK(runner->vendor_refusals() ==
          std::vector<std::string>{"cuDNN does not work here: cudnnCreate: fake: another error"});
    check_step(*runner, r);
    fakes.cublas.starts = CUBLAS_STATUS_NOT_INITIALIZED;
    runner = executor_on(open_host_device(), r);
    CHECK(runner->vendor_library().empty());
    REQUIRE(runner->vendor_refusals().size() == 2);
    CHECK(runner->vendor_refusals()[0].starts_with("cuBLAS does not work here: cublasCreate: "));
    check_step(*runner, r);
  }

  TEST_CASE("a library that lacks a function is not used, shown with the stand-in for channels") {
    const auto device = open_host_device();
    const auto nccl = open_nccl(*device, 0);
    REQUIRE_FALSE(nccl.ok());
    CHECK(nccl.error().message == "libnccl.so." ES_NCCL_MAJOR " has no function ncclGetVersion");
  }
}

}  // namespace
}  // namespace es::gpu::cuda
