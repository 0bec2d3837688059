#include <string>

#include "tests/bench/cases.h"
#include "tests/bench/dnnl_contestants.h"
#include "tests/bench/floats.h"

namespace es::bench {
namespace {

void batch_norm_case(const gpu::KernelTable& table, Report& report, std::int64_t rows,
                     std::int64_t c) {
  const std::string name = "bn+relu " + std::to_string(rows) + "x" + std::to_string(c);
  if (!report.wants(name)) return;
  Floats x(rows * c), y(rows * c), dx(rows * c), gamma(c), beta(c), mean(c), istd(c);
  Floats running(2 * c), next(2 * c), grads(2 * c), ws(table.bn_workspace_floats(rows, c));
  for (std::int64_t i = 0; i < 2 * c; ++i) running[i] = 1.0f;
  const auto forward = [&] {
    table.bn_train_fwd(rows, c, x, gamma, beta, 1e-5f, 0.1f, running, running + c,
                       gpu::Activation::kRelu, y, mean, istd, next, next + c, ws);
  };
  const auto backward = [&] {
    table.bn_bwd(rows, c, x, y, mean, istd, gamma, beta, gpu::Activation::kRelu, dx, grads,
                 grads + c, ws);
  };
  report.add(
      {name, "fwd", "oneDNN", duel(dnnl_batch_norm(rows, c, false), forward, kSecondsPerDuel)});
  report.add(
      {name, "bwd", "oneDNN", duel(dnnl_batch_norm(rows, c, true), backward, kSecondsPerDuel)});
}

void max_pool_case(const gpu::KernelTable& table, Report& report, const std::string& name,
                   const gpu::PoolShape& s) {
  if (!report.wants(name)) return;
  const std::size_t outputs = s.n * s.oh() * s.ow() * s.c;
  Floats x(s.n * s.h * s.w * s.c), y(outputs), dx(s.n * s.h * s.w * s.c);
  std::vector<std::uint8_t> argmax(outputs);
  const auto forward = [&] { table.max_pool_fwd(s, x, y, argmax.data()); };
  const auto backward = [&] { table.max_pool_bwd(s, y, argmax.data(), dx); };
  report.add({name, "fwd", "oneDNN", duel(dnnl_max_pool(s, false), forward, kSecondsPerDuel)});
  report.add({name, "bwd", "oneDNN", duel(dnnl_max_pool(s, true), backward, kSecondsPerDuel)});
}

}  // namespace

void memory_cases(const gpu::KernelTable& table, Report& report) {
  for (std::int64_t side = 32, c = 64; side >= 4; side /= 2, c *= 2) {
    batch_norm_case(table, report, 32 * side * side, c);
  }
  batch_norm_case(table, report, 32 * 8 * 8, 58);
  max_pool_case(table, report, "max pool 2x2 64 64^2",
                {.n = 8, .h = 64, .w = 64, .c = 64, .kh = 2, .kw = 2, .stride = 2});
  max_pool_case(table, report, "max pool 3x3s2 64 32^2",
                {.n = 8, .h = 32, .w = 32, .c = 64, .kh = 3, .kw = 3, .stride = 2, .pad = 1});
}

}  // namespace es::bench
