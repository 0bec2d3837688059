// Canonical kernels against oneDNN and OpenBLAS on one core.
//
//   kernels_bench [--class CLASS] [--json FILE] [FILTER]
//
// CLASS is cpu-avx512 or cpu-avx2 (default: the fastest that this machine has; the vendors are
// limited to the same instruction set), FILTER a part of a case name. Prints a line for each case:
// the ratio is the vendor's time over ours, so above 1 ours is faster; "of peak" is ours as a part
// of the fp32 peak, which is measured first. oneDNN gets its better layout of two; its convolutions
// leave products with the padding out, as ours do, so GFLOP/s may be above the peak. --json writes
// the same numbers; the commit there is taken from the environment variable ES_COMMIT.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "gpu/canonical/kernels.h"
#include "tests/bench/cases.h"

namespace es::bench {
namespace {

struct Options {
  CpuClass cpu_class = supported_cpu_classes().back();
  std::string json, filter;
};

// Says what is wrong when it returns nothing.
std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if ((arg == "--class" || arg == "--json") && i + 1 == argc) {
      std::fprintf(stderr, "kernels_bench: %s needs a value\n", arg.c_str());
      return std::nullopt;
    }
    if (arg == "--json") {
      options.json = argv[++i];
    } else if (arg == "--class") {
      const auto parsed = parse_cpu_class(argv[++i]);
      if (!parsed.ok() || !cpu_supports(parsed.value())) {
        std::fprintf(stderr, "kernels_bench: class \"%s\" is not one that this machine has\n",
                     argv[i]);
        return std::nullopt;
      }
      options.cpu_class = parsed.value();
    } else {
      options.filter = arg;
    }
  }
  return options;
}

// The vendors read these when they are loaded, so the process starts again once they are set.
void limit_vendors(char** argv, CpuClass cpu_class) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  if (cpu_class == CpuClass::kAvx2) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  }
  execv("/proc/self/exe", argv);
}

int run(const Options& options) {
  pin_to_one_processor();
  const gpu::KernelTable& table = gpu::kernel_table(options.cpu_class);
  Report report(table, options.filter);
  conv_cases(table, report);
  gemm_cases(table, report);
  memory_cases(table, report);
  if (options.json.empty() || report.write_json(options.json)) return 0;
  std::fprintf(stderr, "kernels_bench: cannot write %s\n", options.json.c_str());
  return 1;
}

}  // namespace
}  // namespace es::bench

int main(int argc, char** argv) {
  const auto options = es::bench::parse_options(argc, argv);
  if (!options) return 2;
  es::bench::limit_vendors(argv, options->cpu_class);
  return es::bench::run(*options);
}
