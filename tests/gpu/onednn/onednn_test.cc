#include "gpu/onednn/onednn.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/gpu/support/onednn_class.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

using es::test::onednn_class;
using es::test::onednn_or_skip;

constexpr ConvPass kPasses[] = {ConvPass::kForward, ConvPass::kDataGradient,
                                ConvPass::kWeightGradient};

// One call of a kernel: sizes and operands. `terms`: the number of products in one output.
struct Call {
  std::string what;
  Floats a, b, bias;
  bool has_bias;
  std::int64_t out_floats;
  std::int64_t terms;
  const float* bias_or_null() const { return has_bias ? bias.data() : nullptr; }
};

std::string name(ConvPass pass) {
  return pass == ConvPass::kForward        ? "forward"
         : pass == ConvPass::kDataGradient ? "data gradient"
                                           : "weight gradient";
}

Call conv_call(Random& random, const ConvShape& s, ConvPass pass) {
  const std::int64_t x = s.n * s.h * s.w * s.c, y = s.n * s.oh() * s.ow() * s.oc;
  const std::int64_t w = s.oc * s.kh * s.kw * (s.c / s.groups), taps = s.kh * s.kw;
  const bool forward = pass == ConvPass::kForward;
  const std::string what = name(pass) + " n=" + std::to_string(s.n) + " h=" + std::to_string(s.h) +
                           " w=" + std::to_string(s.w) + " c=" + std::to_string(s.c) +
                           " oc=" + std::to_string(s.oc) + " k=" + std::to_string(s.kh) +
                           " stride=" + std::to_string(s.stride) + " pad=" + std::to_string(s.pad) +
                           " groups=" + std::to_string(s.groups);
  switch (pass) {
    case ConvPass::kForward:
      return {what, random.normals(x),    random.normals(w), random.normals(s.oc), random.coin(),
              y,    taps * s.c / s.groups};
    case ConvPass::kDataGradient:
      return {what, random.normals(y),     random.normals(w), random.normals(s.oc), false,
              x,    taps * s.oc / s.groups};
    case ConvPass::kWeightGradient:
      break;
  }
  ES_CHECK(!forward);
  return {what, random.normals(x),    random.normals(y), random.normals(s.oc), false,
          w,    s.n * s.oh() * s.ow()};
}

Floats canonical(const ConvShape& s, ConvPass pass, const Call& call) {
  const KernelTable& table = kernel_table(onednn_class());
  Floats out(call.out_floats);
  if (pass == ConvPass::kForward)
    table.conv_fwd(s, 0, s.oc, call.a, call.b, call.bias_or_null(), out,
                   workspace(table.conv_fwd_workspace_floats(s)));
  else if (pass == ConvPass::kDataGradient)
    table.conv_dgrad(s, 0, s.c, call.a, call.b, out,
                     workspace(table.conv_dgrad_workspace_floats(s)));
  else
    table.conv_wgrad(s, 0, s.oc, call.a, call.b, out,
                     workspace(table.conv_wgrad_workspace_floats(s)));
  return out;
}

Floats canonical(const GemmShape& s, const Call& call) {
  const KernelTable& table = kernel_table(onednn_class());
  Floats out(call.out_floats);
  table.gemm(s, call.a, call.b, call.bias_or_null(), out,
             workspace(table.gemm_workspace_floats(s)));
  return out;
}

Floats run(OnednnKernel& kernel, const Call& call) {
  Floats out(call.out_floats);
  REQUIRE(kernel.run(call.a, call.b, call.bias_or_null(), out).ok());
  return out;
}

bool any_nan(const Floats& values) {
  return std::any_of(values.data(), values.data() + values.size(),
                     [](float v) { return std::isnan(v); });
}

Floats absolute(const Floats& values) {
  std::int64_t i = 0;
  return Floats(values.size(), [&] { return std::abs(values.data()[i++]); });
}

Call absolute(const Call& call) {
  return {call.what,     absolute(call.a), absolute(call.b), absolute(call.bias),
          call.has_bias, call.out_floats,  call.terms};
}

// In any order of additions, a sum of n products with a bias differs from the exact one by at most
// about (n + 1) * 2^-24 times the sum of their magnitudes, and two such sums differ by at most
// twice that. `magnitude`: the same call with all operands positive.
void check_agrees(const Floats& vendor, const Floats& canonical, const Floats& magnitude,
                  const Call& call) {
  const double unit = 2.0 * static_cast<double>(call.terms + 2) * 0x1p-24;
  for (std::int64_t i = 0; i < vendor.size(); ++i)
    check_near(vendor.data()[i], static_cast<double>(canonical.data()[i]),
               unit * static_cast<double>(magnitude.data()[i]),
               call.what + " element " + std::to_string(i));
}

// Shapes of every kind that models have: dense, grouped and depthwise, with a window that fits.
ConvShape random_shape(Random& random) {
  ConvShape s;
  s.kh = s.kw = 2 * random.integer(0, 2) + 1;
  s.pad = random.integer(0, s.kh / 2);
  s.stride = random.integer(1, 2);
  s.n = random.integer(1, 4);
  s.h = random.integer(s.kh, 14);
  s.w = random.integer(s.kw, 14);
  s.groups = random.coin() ? 1 : random.integer(2, 40);
  s.c = s.groups * random.integer(1, s.groups == 1 ? 40 : 2);
  s.oc = s.groups > 1 && random.coin() ? s.c : s.groups * random.integer(1, 3);
  return s;
}

GemmShape random_product(Random& random) {
  GemmShape s{.m = random.integer(1, 40), .n = random.integer(1, 40), .k = random.integer(1, 300)};
  const bool a_transposed = random.coin(), b_transposed = random.coin();
  s.a_row = a_transposed ? 1 : s.k;
  s.a_col = a_transposed ? s.m : 1;
  s.b_row = b_transposed ? 1 : s.n;
  s.b_col = b_transposed ? s.k : 1;
  s.c_row = s.n;
  return s;
}

std::size_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

}  // namespace

TEST_SUITE("gpu/onednn") {
  TEST_CASE("convolutions agree with the canonical ones, and repeat their bits") {
    const OnednnLibrary* library = onednn_or_skip();
    if (library == nullptr) return;
    Random random(es::test::seed("onednn conv"));
    for (int round = 0; round < 60; ++round) {
      const ConvShape s = random_shape(random);
      for (const ConvPass pass : kPasses) {
        const Call call = conv_call(random, s, pass);
        INFO(call.what);
        const auto kernel = *library->conv(s, pass, call.has_bias);
        REQUIRE(kernel != nullptr);
        const Floats out = run(*kernel, call);
        check_agrees(out, canonical(s, pass, call), canonical(s, pass, absolute(call)), call);
        CHECK(run(*kernel, call).first_difference(out) == -1);
      }
    }
  }

  TEST_CASE("matrix products agree with the canonical ones, and repeat their bits") {
    const OnednnLibrary* library = onednn_or_skip();
    if (library == nullptr) return;
    Random random(es::test::seed("onednn gemm"));
    for (int round = 0; round < 100; ++round) {
      const GemmShape s = random_product(random);
      const Call call{"product m=" + std::to_string(s.m) + " n=" + std::to_string(s.n) +
                          " k=" + std::to_string(s.k),
                      random.normals(s.m * s.k),
                      random.normals(s.k * s.n),
                      random.normals(s.n),
                      random.coin(),
                      s.m * s.n,
                      s.k};
      INFO(call.what);
      const auto kernel = *library->gemm(s, call.has_bias);
      REQUIRE(kernel != nullptr);
      const Floats out = run(*kernel, call);
      check_agrees(out, canonical(s, call), canonical(s, absolute(call)), call);
      CHECK(run(*kernel, call).first_difference(out) == -1);
    }
  }

  TEST_CASE("a NaN that the canonical kernels pass on is passed on by the library too") {
    const OnednnLibrary* library = onednn_or_skip();
    if (library == nullptr) return;
    Random random(es::test::seed("onednn nan"));
    for (int round = 0; round < 40; ++round) {
      const ConvShape s = random_shape(random);
      for (const ConvPass pass : kPasses) {
        const Call call = conv_call(random, s, pass);
        INFO(call.what);
        const Floats& planted = random.coin() ? call.a : call.b;
        planted[random.integer(0, planted.size() - 1)] = NAN;
        const auto kernel = library->conv(s, pass, call.has_bias);
        REQUIRE(kernel.ok());
        CHECK((any_nan(run(**kernel, call)) || !any_nan(canonical(s, pass, call))));
      }
      const GemmShape g = random_product(random);
      const Call call{"product",
                      random.normals(g.m * g.k),
                      random.normals(g.k * g.n),
                      random.normals(g.n),
                      random.coin(),
                      g.m * g.n,
                      g.k};
      (random.coin() ? call.a : call.b)[0] = NAN;
      const auto product = library->gemm(g, call.has_bias);
      REQUIRE(product.ok());
      CHECK(any_nan(run(**product, call)));
    }
  }

  TEST_CASE(
      "the algorithm is a function of the shape, and another kernel of that shape has its bits") {
    const OnednnLibrary* library = onednn_or_skip();
    if (library == nullptr) return;
    Random random(es::test::seed("onednn algorithm"));
    for (int round = 0; round < 20; ++round) {
      const ConvShape s = random_shape(random);
      for (const ConvPass pass : kPasses) {
        const Call call = conv_call(random, s, pass);
        INFO(call.what);
        const auto first = *library->conv(s, pass, call.has_bias);
        const auto second = *library->conv(s, pass, call.has_bias);
        CHECK_FALSE(first->algorithm().empty());
        CHECK(first->algorithm() == second->algorithm());
        CHECK(run(*first, call).first_difference(run(*second, call)) == -1);
      }
    }
  }

  // The test runs with OMP_NUM_THREADS above 1. By default the library would use that number of
  // threads.
  TEST_CASE("a kernel starts no thread, and has the same bits on any thread") {
    const OnednnLibrary* library = onednn_or_skip();
    if (library == nullptr) return;
    const ConvShape s{.n = 8, .h = 28, .w = 28, .c = 3, .oc = 64, .kh = 3, .kw = 3, .pad = 1};
    Random random(es::test::seed("onednn threads"));
    for (const ConvPass pass : kPasses) {
      const Call call = conv_call(random, s, pass);
      INFO(call.what);
      const std::size_t before = threads_of_process();
      const auto kernel = *library->conv(s, pass, call.has_bias);
      const Floats here = run(*kernel, call);
      CHECK(threads_of_process() == before);
      std::thread([&] {
        const auto made_there = *library->conv(s, pass, call.has_bias);
        CHECK(run(*made_there, call).first_difference(here) == -1);
        CHECK(run(*kernel, call).first_difference(here) == -1);
        CHECK(threads_of_process() == before + 1);
      }).join();
    }
  }

  TEST_CASE("the scalar class has no oneDNN") {
    const auto library = open_onednn(CpuClass::kScalar);
    REQUIRE(library.ok());
    CHECK(*library == nullptr);
  }

  TEST_CASE("the library's name has its version, and a process serves one class") {
    const OnednnLibrary* library = onednn_or_skip();
    if (library == nullptr) return;
    CHECK(library->name().find_first_of("0123456789") != std::string::npos);
    CHECK(*open_onednn(onednn_class()) == library);
    const CpuClass other = onednn_class() == CpuClass::kAvx2 ? CpuClass::kAvx512 : CpuClass::kAvx2;
    const auto refused = open_onednn(other);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find(device_type(onednn_class()).name) != std::string::npos);
    CHECK(refused.error().message.find(device_type(other).name) != std::string::npos);
  }
}

}  // namespace es::gpu::testing
