#include <string>

#include "gpu/canonical/phases.h"
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
    gpu::bn_train_fwd(table,
                      {.rows = rows,
                       .c = c,
                       .x = x,
                       .gamma = gamma,
                       .beta = beta,
                       .running_mean = running,
                       .running_var = running + c,
                       .act = gpu::Activation::kRelu,
                       .y = y,
                       .mean = mean,
                       .istd = istd,
                       .next_mean = next,
                       .next_var = next + c,
                       .ws = ws},
                      gpu::Alone());
  };
  const auto backward = [&] {
    gpu::bn_bwd(table,
                {.rows = rows,
                 .c = c,
                 .x = x,
                 .dy = y,
                 .mean = mean,
                 .istd = istd,
                 .gamma = gamma,
                 .beta = beta,
                 .act = gpu::Activation::kRelu,
                 .dx = dx,
                 .dgamma = grads,
                 .dbeta = grads + c,
                 .ws = ws},
                gpu::Alone());
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
  max_pool_case(
      table, report, "max pool 2x2 64 64^2",
      {.n = 8, .h = 64, .w = 64, .c = 64, .kh = 2, .kw = 2, .stride_h = 2, .stride_w = 2});
  max_pool_case(table, report, "max pool 3x3s2 64 32^2",
                {.n = 8,
                 .h = 32,
                 .w = 32,
                 .c = 64,
                 .kh = 3,
                 .kw = 3,
                 .stride_h = 2,
                 .stride_w = 2,
                 .pad_h = 1,
                 .pad_w = 1});
}

}  // namespace es::bench
