// Canonical kernels against oneDNN and OpenBLAS, and exact products against fp32, on one core.
//
//   kernels_bench [--class CLASS] [--json FILE] [FILTER]
//
// CLASS is cpu-avx512 or cpu-avx2. The default is the fastest class of this machine. The vendor
// libraries are limited to the same instruction set. FILTER is a part of a case name. The program
// prints one line for each case. The ratio is the time of the vendor library divided by ours, so
// ours is faster above 1. "of peak" is our speed divided by the fp32 peak, which is measured first.
// oneDNN gets the faster of two layouts. Its convolutions skip products with the padding, as ours
// do, so GFLOP/s may be above the peak. --json writes the same numbers, with the commit in the
// environment variable ES_COMMIT.
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

// When it returns nothing, it has printed the error.
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

// The vendor libraries read these variables when they are loaded, so the process sets them and
// starts again.
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
