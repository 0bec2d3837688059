// Counts every allocation through operator new in this program.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "gpu/engine/engine.h"
#include "gpu/est/gradient_tree.h"
#include "tests/gpu/models/samples_by_formula.h"

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
// Both aligned forms, because those of a sanitizer would not work together with the delete below.
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ++allocations;
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (void* memory = ::operator new(bytes, alignment, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
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

TEST_SUITE("gpu/engine") {
  using namespace es;
  using namespace es::gpu;

  // A worker of one job, with all memory that its caller keeps from step to step.
  struct Worker {
    Worker(const std::string& model, const char* optimizer, std::uint32_t threads) {
      JobSpec spec;
      spec.max_p = 3;
      spec.batch_size = 2;
      spec.level = DeterminismLevel::kD2;
      spec.model = {.name = model, .size = "tiny", .classes = 10};
      spec.optimizer = {.kind = optimizer, .learning_rate = 1e-4, .clip_norm = 1.0};
      test::SampleSizes sizes;
      sizes.side = 32;
      const Task task = task_of(spec.model);
      words = test::reference_batch(task, sizes, 2);
      engine = *Engine::create(
          spec, test::sample_layout(task, sizes),
          {.cpu_class = supported_cpu_classes().back(), .threads = threads, .all_threads = true});
      REQUIRE(engine->init_replica().ok());
      for (int i = 0; i < 3; ++i) slots.emplace_back(engine->table().total_floats());
      sums.resize(engine->buckets().size());
      tree = std::make_unique<GradientTree>(
          RankRange{0, 3}, 3, engine->buckets().size(), [this](const PartReady& part) {
            sums[part.bucket] = slots[part.slot].data() + engine->buckets()[part.bucket].begin;
          });
    }

    // Allocations of one global step, without those of `next`.
    std::size_t step() {
      std::vector<EstContext> next = engine->replica().contexts;
      bool ok = true;
      const std::size_t before = allocations;
      tree->release_all();
      for (VirtualRank rank = 0; rank < 3; ++rank)
        ok &= engine
                  ->local_step(rank, {words.data()}, {},
                               {tree->begin_rank(rank),
                                [this](std::uint32_t slot) { return slots[slot].data(); }},
                               next[rank],
                               [this](std::uint32_t bucket) { tree->bucket_ready(bucket); })
                  .ok();
      ok &= engine->apply_update(sums, std::move(next)).ok();
      const std::size_t after = allocations;
      REQUIRE(ok);
      return after - before;
    }

    std::unique_ptr<Engine> engine;
    std::unique_ptr<GradientTree> tree;
    std::vector<float> words;
    std::vector<AlignedBuffer> slots;
    std::vector<const float*> sums;
  };

  TEST_CASE("local steps, the merging of gradients and the update allocate nothing") {
    for (const std::string model : {"mlp", "small_cnn", "resnet18", "resnet50", "shufflenetv2",
                                    "vgg19", "swin_t", "yolov3", "neumf", "bert", "electra"})
      for (const std::uint32_t threads : {1U, 2U}) {
        CAPTURE(model);
        CAPTURE(threads);
        Worker worker(model, threads == 1 ? "sgd" : "adamw", threads);
        CHECK(allocations > 0);
        CHECK(worker.step() == 0);
        CHECK(worker.step() == 0);
      }
  }
}
