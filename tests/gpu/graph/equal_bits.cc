#include "tests/gpu/graph/equal_bits.h"

#include <doctest/doctest.h>

#include <utility>

#include "gpu/graph/fuse.h"
#include "tests/gpu/support/step_rig.h"

namespace es::test {

std::vector<OperatorCase> all_cases() {
  std::vector<OperatorCase> cases = operator_cases();
  for (OperatorCase& c : network_cases()) cases.push_back(std::move(c));
  return cases;
}

void check_fusion_keeps_bits(const std::vector<OperatorCase>& cases, std::uint64_t seed,
                             gpu::Program (*unfused)(gpu::Graph)) {
  for (const OperatorCase& c : cases) {
    for (const CpuClass cpu_class : supported_cpu_classes()) {
      INFO(c.name, " ", int(cpu_class));
      StepRig plain(unfused(c.graph), seed, {.cpu_class = cpu_class});
      StepRig fused(gpu::compile(c.graph), seed, {.cpu_class = cpu_class});
      CHECK(fused.step_bits() == plain.step_bits());
      CHECK(fused.evaluation_bits() == plain.evaluation_bits());
    }
  }
}

void check_classes_and_threads_keep_bits(const std::vector<OperatorCase>& cases,
                                         std::uint64_t seed) {
  for (const OperatorCase& c : cases) {
    StepRig first(gpu::compile(c.graph), seed);
    const std::vector<std::uint32_t> step = first.step_bits();
    const std::vector<std::uint32_t> evaluation = first.evaluation_bits();
    for (const CpuClass cpu_class : supported_cpu_classes()) {
      for (const std::uint32_t threads : {1U, 3U}) {
        INFO(c.name, " ", int(cpu_class), " ", threads, " threads");
        StepRig other(gpu::compile(c.graph), seed, {.cpu_class = cpu_class, .threads = threads});
        CHECK(other.step_bits() == step);
        CHECK(other.evaluation_bits() == evaluation);
      }
    }
  }
}

}  // namespace es::test
