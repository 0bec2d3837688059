// Canonical kernels against oneDNN on one core.
//
//   kernels_bench [CLASS] [FILTER]
//
// CLASS is cpu-avx512 or cpu-avx2 (default: the fastest that this machine has; oneDNN is limited to
// the same instruction set), FILTER a part of a case name. Prints a line for each case to read, and
// one CSV line:
// csv,case,pass,class,vendor_us,ours_us,ratio,ratio_p10,ratio_p90,gflops,machine,commit. The ratio
// is oneDNN's time over ours: above 1 ours is faster. oneDNN gets its better layout of two. The
// commit is taken from the environment variable ES_COMMIT.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "gpu/canonical/kernels.h"
#include "tests/bench/dnnl_contestants.h"
#include "tests/bench/duel.h"

namespace es::bench {
namespace {

using gpu::ConvShape;
using gpu::KernelTable;

constexpr double kSecondsPerDuel = 0.3;

// Floats at a 64-byte boundary, filled with a normal distribution.
class Floats {
 public:
  explicit Floats(std::size_t n)
      : data_(static_cast<float*>(std::aligned_alloc(64, (n * sizeof(float) + 127) / 64 * 64))) {
    static std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < n; ++i) data_[i] = normal(random);
  }
  ~Floats() { std::free(data_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  operator float*() { return data_; }

 private:
  float* data_;
};

class Report {
 public:
  Report(const KernelTable& table, std::string filter)
      : table_(table), filter_(std::move(filter)), machine_(processor_name()) {
    const char* commit = std::getenv("ES_COMMIT");
    commit_ = commit != nullptr ? commit : "unknown";
    std::printf("%-26s %-6s %10s %10s %8s   %-13s %s\n", "case", "pass", "oneDNN us", "ours us",
                "GFLOP/s", "ratio", "p10..p90");
  }

  bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }

  // `flops` is 0 for work that memory limits.
  void add(const std::string& name, const char* pass, const Duel& d, double flops) const {
    const double gflops = flops / d.ours_us * 1e-3;
    std::printf("%-26s %-6s %10.1f %10.1f %8.1f   %-13.2f %.2f..%.2f\n", name.c_str(), pass,
                d.vendor_us, d.ours_us, gflops, d.ratio, d.ratio_low, d.ratio_high);
    std::printf("csv,%s,%s,%s,%.1f,%.1f,%.3f,%.3f,%.3f,%.1f,\"%s\",%s\n", name.c_str(), pass,
                device_type(table_.cpu_class).name.c_str(), d.vendor_us, d.ours_us, d.ratio,
                d.ratio_low, d.ratio_high, gflops, machine_.c_str(), commit_.c_str());
    std::fflush(stdout);
  }

 private:
  const KernelTable& table_;
  const std::string filter_, machine_;
  std::string commit_;
};

// Our side of one convolution, with buffers for all three passes.
struct OurConv {
  OurConv(const KernelTable& kernels, const ConvShape& shape)
      : table(kernels),
        s(shape),
        x(s.n * s.h * s.w * s.c),
        y(s.n * s.oh() * s.ow() * s.oc),
        w(s.oc * s.kh * s.kw * s.c / s.groups),
        packed_fwd(table.conv_fwd_packed_floats(s)),
        packed_dgrad(table.conv_dgrad_packed_floats(s)),
        ws(table.conv_fwd_workspace_floats(s) + table.conv_dgrad_workspace_floats(s) +
           table.conv_wgrad_workspace_floats(s)) {
    table.conv_fwd_pack(s, w, packed_fwd);
    table.conv_dgrad_pack(s, w, packed_dgrad);
  }

  void run(ConvPass pass) {
    switch (pass) {
      case ConvPass::kForward:
        return table.conv_fwd(s, x, packed_fwd, nullptr, y, ws);
      case ConvPass::kDataGradient:
        return table.conv_dgrad(s, y, packed_dgrad, x, ws);
      case ConvPass::kWeightGradient:
        return table.conv_wgrad(s, x, y, w, ws);
    }
  }

  const KernelTable& table;
  const ConvShape s;
  Floats x, y, w, packed_fwd, packed_dgrad, ws;
};

struct ConvCase {
  const char* name;
  ConvShape shape;
  bool data_gradient = true;  // the first layer of a model has none
};

const std::vector<ConvCase> kConvCases = {
    {"3x3 64 56x56 n1", {.n = 1, .h = 56, .w = 56, .c = 64, .oc = 64, .kh = 3, .kw = 3, .pad = 1}},
    {"3x3 64 56x56 n8", {.n = 8, .h = 56, .w = 56, .c = 64, .oc = 64, .kh = 3, .kw = 3, .pad = 1}},
    {"first 3x3 3-64 32x32 n32",
     {.n = 32, .h = 32, .w = 32, .c = 3, .oc = 64, .kh = 3, .kw = 3, .pad = 1},
     false},
    {"3x3 64 32x32 n32",
     {.n = 32, .h = 32, .w = 32, .c = 64, .oc = 64, .kh = 3, .kw = 3, .pad = 1}},
    {"3x3s2 64-128 32x32 n32",
     {.n = 32, .h = 32, .w = 32, .c = 64, .oc = 128, .kh = 3, .kw = 3, .stride = 2, .pad = 1}},
    {"1x1s2 64-128 32x32 n32",
     {.n = 32, .h = 32, .w = 32, .c = 64, .oc = 128, .kh = 1, .kw = 1, .stride = 2}},
    {"3x3 128 16x16 n32",
     {.n = 32, .h = 16, .w = 16, .c = 128, .oc = 128, .kh = 3, .kw = 3, .pad = 1}},
    {"3x3 256 8x8 n32", {.n = 32, .h = 8, .w = 8, .c = 256, .oc = 256, .kh = 3, .kw = 3, .pad = 1}},
    {"3x3 512 4x4 n32", {.n = 32, .h = 4, .w = 4, .c = 512, .oc = 512, .kh = 3, .kw = 3, .pad = 1}},
    {"1x1 64-256 56x56 n4", {.n = 4, .h = 56, .w = 56, .c = 64, .oc = 256}},
    {"1x1 58 28x28 n32", {.n = 32, .h = 28, .w = 28, .c = 58, .oc = 58}},
    {"7x7s2 3-64 224 n4",
     {.n = 4, .h = 224, .w = 224, .c = 3, .oc = 64, .kh = 7, .kw = 7, .stride = 2, .pad = 3},
     false},
    {"depthwise 3x3 64 32x32 n32",
     {.n = 32, .h = 32, .w = 32, .c = 64, .oc = 64, .kh = 3, .kw = 3, .pad = 1, .groups = 64}},
};

void conv_case(const KernelTable& table, const Report& report, const ConvCase& c) {
  const ConvShape& s = c.shape;
  const double flops = 2.0 * s.n * s.oh() * s.ow() * s.oc * s.kh * s.kw * s.c / s.groups;
  OurConv ours(table, s);
  const std::pair<ConvPass, const char*> passes[] = {{ConvPass::kForward, "fwd"},
                                                     {ConvPass::kDataGradient, "dgrad"},
                                                     {ConvPass::kWeightGradient, "wgrad"}};
  for (const auto& [pass, name] : passes) {
    if (pass == ConvPass::kDataGradient && !c.data_gradient) continue;
    Duel best;
    for (const DnnlLayout layout : {DnnlLayout::kNhwc, DnnlLayout::kOwn}) {
      const auto vendor = dnnl_conv(s, pass, layout);
      if (!vendor) continue;
      const Duel d = duel(
          vendor, [&, p = pass] { ours.run(p); }, kSecondsPerDuel);
      if (best.ratio == 0 || d.vendor_us < best.vendor_us) best = d;
    }
    report.add(c.name, name, best, flops);
  }
}

void gemm_case(const KernelTable& table, const Report& report, std::int64_t m, std::int64_t n,
               std::int64_t k) {
  const std::string name =
      "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  if (!report.wants(name)) return;
  const gpu::GemmShape s{
      .m = m, .n = n, .k = k, .a_row = k, .a_col = 1, .b_row = n, .b_col = 1, .c_row = n};
  Floats a(m * k), b(k * n), c(m * n), ws(table.gemm_workspace_floats(s));
  const Duel d = duel(
      dnnl_gemm(m, n, k), [&] { table.gemm(s, a, b, nullptr, c, ws); }, kSecondsPerDuel);
  report.add(name, "fwd", d, 2.0 * m * n * k);
}

void batch_norm_case(const KernelTable& table, const Report& report, std::int64_t rows,
                     std::int64_t c) {
  const std::string name = "bn+relu " + std::to_string(rows) + "x" + std::to_string(c);
  if (!report.wants(name)) return;
  Floats x(rows * c), y(rows * c), dx(rows * c), gamma(c), beta(c), mean(c), istd(c);
  Floats running(2 * c), next(2 * c), grads(2 * c), ws(table.bn_workspace_floats(rows, c));
  for (std::int64_t i = 0; i < 2 * c; ++i) running[i] = 1.0f;
  const auto forward = [&] {
    table.bn_train_fwd(rows, c, x, gamma, beta, 1e-5f, 0.1f, running, running + c, true, y, mean,
                       istd, next, next + c, ws);
  };
  const auto backward = [&] {
    table.bn_bwd(rows, c, x, y, mean, istd, gamma, beta, true, dx, grads, grads + c, ws);
  };
  report.add(name, "fwd", duel(dnnl_batch_norm(rows, c, false), forward, kSecondsPerDuel), 0);
  report.add(name, "bwd", duel(dnnl_batch_norm(rows, c, true), backward, kSecondsPerDuel), 0);
}

void run_all(const KernelTable& table, const Report& report) {
  for (const ConvCase& c : kConvCases) {
    if (report.wants(c.name)) conv_case(table, report, c);
  }
  gemm_case(table, report, 256, 256, 256);
  gemm_case(table, report, 1024, 1024, 1024);
  gemm_case(table, report, 32, 1000, 512);
  batch_norm_case(table, report, 32 * 32 * 32, 64);
  batch_norm_case(table, report, 32 * 16 * 16, 128);
  batch_norm_case(table, report, 32 * 4 * 4, 512);
}

// oneDNN reads these when it is loaded, so the process starts again once they are set.
void limit_vendor(char** argv, CpuClass cpu_class) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  setenv("OMP_NUM_THREADS", "1", 1);
  if (cpu_class == CpuClass::kAvx2) setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  execv("/proc/self/exe", argv);
}

}  // namespace
}  // namespace es::bench

int main(int argc, char** argv) {
  using namespace es;
  CpuClass cpu_class = supported_cpu_classes().back();
  if (argc > 1) {
    const auto parsed = parse_cpu_class(argv[1]);
    if (!parsed.ok() || !cpu_supports(parsed.value())) {
      std::fprintf(stderr, "kernels_bench: class \"%s\" is not one that this machine has\n",
                   argv[1]);
      return 2;
    }
    cpu_class = parsed.value();
  }
  bench::limit_vendor(argv, cpu_class);
  bench::pin_to_one_processor();
  const gpu::KernelTable& table = gpu::kernel_table(cpu_class);
  bench::run_all(table, bench::Report(table, argc > 2 ? argv[2] : ""));
  return 0;
}
