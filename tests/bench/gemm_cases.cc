#include <algorithm>
#include <string>

#include "tests/bench/blas_contestant.h"
#include "tests/bench/cases.h"
#include "tests/bench/dnnl_contestants.h"
#include "tests/bench/floats.h"

namespace es::bench {
namespace {

// C[m][n] = A[m][k] * B, B [k][n] or, for the weights of a linear layer, [n][k].
struct Product {
  const char* name;
  std::int64_t m, n, k;
  bool b_transposed = false;
};

constexpr Product kProducts[] = {
    {"gemm 256x256x256", 256, 256, 256},
    {"gemm 1024x1024x1024", 1024, 1024, 1024},
    {"linear 32x1000x512", 32, 1000, 512, true},
    {"linear bert 256x768x768", 256, 768, 768, true},
    {"linear bert 256x3072x768", 256, 3072, 768, true},
    {"linear bert 256x768x3072", 256, 768, 3072, true},
    {"linear swin 2048x288x96", 2048, 288, 96, true},
    {"linear vgg 8x4096x4096", 8, 4096, 4096, true},
    {"linear neumf 1024x64x128", 1024, 64, 128, true},
};

gpu::GemmShape shape_of(const Product& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .a_row = p.k,
          .a_col = 1,
          .b_row = p.b_transposed ? 1 : p.n,
          .b_col = p.b_transposed ? p.k : 1,
          .c_row = p.n};
}

// An exact product beside the same product in fp32, which takes the place of a library.
void exact_case(const gpu::KernelTable& table, Report& report, const Product& p,
                const std::string& name, gpu::Arithmetic arithmetic) {
  const gpu::GemmShape plain = shape_of(p);
  gpu::GemmShape exact = plain;
  exact.arithmetic = arithmetic;
  Floats a(p.m * p.k), b(p.k * p.n), c(p.m * p.n);
  Floats ws(std::max(table.gemm_workspace_floats(plain), table.gemm_workspace_floats(exact)));
  const Duel d = duel([&] { table.gemm(plain, a, b, nullptr, c, ws); },
                      [&] { table.gemm(exact, a, b, nullptr, c, ws); }, kSecondsPerDuel);
  report.add({.name = name,
              .pass = "fwd",
              .vendor = "fp32",
              .duel = d,
              .flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) *
                       static_cast<double>(p.k)});
}

void product_case(const gpu::KernelTable& table, Report& report, const Product& p) {
  const gpu::GemmShape s = shape_of(p);
  Floats a(p.m * p.k), b(p.k * p.n), c(p.m * p.n), ws(table.gemm_workspace_floats(s));
  const auto ours = [&] { table.gemm(s, a, b, nullptr, c, ws); };
  Measurement best;
  for (const auto& [vendor, call] : {std::pair{"oneDNN", dnnl_gemm(p.m, p.n, p.k, p.b_transposed)},
                                     {"OpenBLAS", blas_gemm(p.m, p.n, p.k, p.b_transposed)}}) {
    if (!call) continue;
    const Duel d = duel(call, ours, kSecondsPerDuel);
    if (best.duel.ratio != 0 && d.vendor_us >= best.duel.vendor_us) continue;
    best = {
        .name = p.name, .pass = "fwd", .vendor = vendor, .duel = d, .flops = 2.0 * p.m * p.n * p.k};
  }
  report.add(best);
}

}  // namespace

void gemm_cases(const gpu::KernelTable& table, Report& report) {
  for (const Product& p : kProducts) {
    if (report.wants(p.name)) product_case(table, report, p);
    for (const auto& [kind, arithmetic] :
         {std::pair{"x15 ", gpu::Arithmetic::kX15}, {"x22 ", gpu::Arithmetic::kX22}})
      if (const std::string name = std::string(kind) + p.name; report.wants(name))
        exact_case(table, report, p, name, arithmetic);
  }
}

}  // namespace es::bench
