#include "scheduler/plans/worker_memory.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "tests/support/seed.h"

using namespace es;
using namespace es::scheduler;

namespace {

const DeviceType kCpu{"cpu-avx2"}, kOther{"cpu-scalar"}, kGpu{"cuda-sm90-h200"};

// 100 for what is always there, 40 of moments, 20 for a gradient, of which 7 if it leaves early.
WorkerMemory job(bool divided, std::uint32_t max_p = 8) {
  const WorkerArrays arrays{.always = 100, .moments = 40, .gradient = 20, .gradient_leaving = 7};
  return {.on_cpu = arrays, .on_gpu = arrays, .max_p = max_p, .divided = divided};
}

}  // namespace

TEST_SUITE("scheduler/worker_memory") {
  TEST_CASE("a worker on a CPU has the sums that wait, and those of its buckets") {
    // Eight ESTs: four gradients. A worker alone needs no other sums.
    CHECK(needed_bytes(job(false), kCpu, 1) == MemoryRoom{100 + 40 + 4 * 20, 140});
    CHECK(needed_bytes(job(false), kCpu, 2) == MemoryRoom{100 + 40 + 3 * 20 + 10, 140});
    CHECK(needed_bytes(job(false), kCpu, 8) == MemoryRoom{100 + 40 + 20 + 2, 140});
  }

  TEST_CASE("at level D0 a worker has two gradients, however many ESTs it has") {
    WorkerMemory chained = job(false);
    chained.most_gradients = 2;
    CHECK(needed_bytes(chained, kCpu, 1).all == 100 + 40 + 2 * 20);
    CHECK(needed_bytes(chained, kCpu, 8).all == 100 + 40 + 20 + 2);
  }

  TEST_CASE("divided moments are at two workers each") {
    CHECK(needed_bytes(job(true), kCpu, 1).unshared == 140);
    CHECK(needed_bytes(job(true), kCpu, 2).unshared == 140);
    CHECK(needed_bytes(job(true), kCpu, 4).unshared == 120);
    CHECK(needed_bytes(job(true), kCpu, 8).unshared == 110);
  }

  TEST_CASE("where state is divided, the gradient of a worker with one EST leaves early") {
    CHECK_FALSE(gradients_leave(job(true), kCpu, 7));
    CHECK(needed_bytes(job(true), kCpu, 7).all == 100 + 2 * 40 / 7 + 2 * 20 + 2 * 20 / 7);
    CHECK(gradients_leave(job(true), kCpu, 8));
    CHECK(needed_bytes(job(true), kCpu, 8).all == 100 + 2 * 40 / 8 + 7 + 2 * 20 / 8);
    CHECK(needed_bytes(job(true, 2), kCpu, 2).all == 100 + 40 + 7 + 20);
    // A worker that is alone sends nothing, and a GPU merges in its own memory.
    CHECK_FALSE(gradients_leave(job(true, 1), kCpu, 1));
    CHECK_FALSE(gradients_leave(job(true), kGpu, 8));
    CHECK_FALSE(gradients_leave(job(false), kCpu, 8));
  }

  TEST_CASE("a GPU holds one gradient, and no moments that are divided") {
    CHECK(needed_bytes(job(false), kGpu, 4) == MemoryRoom{160, 0});
    CHECK(needed_bytes(job(true), kGpu, 2) == MemoryRoom{160, 0});
    CHECK(needed_bytes(job(true), kGpu, 4) == MemoryRoom{120, 0});
  }

  TEST_CASE("what is missing is that of the limit that lacks more; no limit lacks nothing") {
    CHECK(missing_bytes(job(false), kCpu, {}, 1) == 0);
    CHECK(missing_bytes(job(false), kCpu, {.all = 220}, 1) == 0);
    CHECK(missing_bytes(job(false), kCpu, {.all = 219}, 1) == 1);
    CHECK(missing_bytes(job(false), kCpu, {.all = 219, .unshared = 100}, 1) == 40);
  }

  TEST_CASE("the fewest workers are of one type unless types may be mixed") {
    const std::vector<RoomyDevices> devices{{kCpu, {.unshared = 120}, 3},
                                            {kOther, {.unshared = 120}, 2}};
    CHECK(fewest_workers(job(true), devices, true, 8) == 4);
    CHECK(fewest_workers(job(true), devices, false, 8) == std::nullopt);
    CHECK(fewest_workers(job(false), devices, true, 8) == std::nullopt);
    CHECK(fewest_workers(job(true), devices, true, 3) == std::nullopt);
    CHECK(missing_text(job(true), devices[0], 3) ==
          "a worker among 3 needs at least 0.0 MiB of its own on cpu-avx2, which has 0.0 MiB: 6 "
          "bytes are missing");
  }

  TEST_CASE("more workers never need more, in random jobs") {
    std::mt19937_64 random(test::seed("worker memory"));
    for (int i = 0; i < 1000; ++i) {
      const auto draw = [&] { return random() % 1'000'000; };
      WorkerArrays cpu{draw(), draw(), draw()}, gpu{draw(), draw(), draw()};
      cpu.gradient_leaving = random() % (cpu.gradient + 1);
      const WorkerMemory some{cpu, gpu, static_cast<std::uint32_t>(1 + random() % 64),
                              random() % 2 == 1};
      for (const DeviceType& type : {kCpu, kGpu})
        for (std::uint32_t n = 2; n < some.max_p; ++n) {
          CHECK(needed_bytes(some, type, n + 1).all <= needed_bytes(some, type, n).all);
          CHECK(needed_bytes(some, type, n + 1).unshared <= needed_bytes(some, type, n).unshared);
        }
    }
  }
}
