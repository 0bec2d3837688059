// Counts every allocation through operator new in this program.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "gpu/graph/executor.h"
#include "gpu/models/models.h"
#include "gpu/params/initialise.h"

namespace {
std::size_t allocations = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_SUITE("gpu/graph/executor") {
  using namespace es::gpu;

  TEST_CASE("a local step and an evaluation allocate nothing, weights packed anew included") {
    const Graph graph = *build_resnet18({2, 8, 8, 1}, 4, 10);
    const auto buckets = cut_buckets(graph.table, 1000);
    Executor executor(differentiate(graph), kernel_table(es::supported_cpu_classes().back()),
                      buckets);
    AlignedBuffer params(graph.table.total_floats()), grads(graph.table.total_floats());
    initialise_params(graph.table, 1, params.data());
    std::vector<float> stats = initial_stats(graph.table);
    std::vector<float> next_stats(stats.size());
    const std::vector<float> images(128, 0.5F);
    const std::vector<std::int32_t> labels{1, 2};
    const Batch batch{images.data(), labels.data()};
    const LocalStep step{params.data(), stats.data(), next_stats.data(), grads.data(), batch};
    std::uint32_t ready = 0;
    const Executor::OnBucketReady on_ready = [&](std::uint32_t) { ++ready; };

    const std::size_t before = allocations;
    executor.run_local_step(step, on_ready);
    executor.invalidate_weights();
    executor.run_local_step(step, on_ready);
    executor.run_eval(params.data(), stats.data(), batch);
    const std::size_t after = allocations;
    CHECK(after == before);
    CHECK(ready == 2 * buckets.size());
    CHECK(before > 0);
  }
}
