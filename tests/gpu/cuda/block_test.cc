#include <vector>

#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/launch_host.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::cuda::on_host {
namespace {

// y[i] = x reversed inside a block.
struct Reverse {
  static constexpr unsigned kThreads = 128;
  struct Shared {
    float values[kThreads];
  };
  const float* x;
  float* y;
  void operator()(const HostBlock& block, Shared& shared) const {
    const unsigned first = (block.x() + 3 * block.y()) * kThreads;
    shared.values[block.thread()] = x[first + block.thread()];
    block.sync();
    y[first + block.thread()] = shared.values[kThreads - 1 - block.thread()];
  }
};

// y[0] = sum of the thread numbers of the block: down() in runs, then in the first run only, while
// the others wait at sync().
struct SumThreads {
  static constexpr unsigned kThreads = 256;
  struct Shared {
    float runs[kThreads / 32];
  };
  float* y;
  float sum_run(const HostBlock& block, float value) const {
    for (unsigned delta = 16; delta > 0; delta /= 2) {
      const float other = block.down(value, delta);
      if (block.thread() % 32 + delta < 32) value += other;
    }
    return value;
  }
  void operator()(const HostBlock& block, Shared& shared) const {
    const unsigned run = block.thread() / 32, lane = block.thread() % 32;
    const float sum = sum_run(block, static_cast<float>(block.thread()));
    if (lane == 0) shared.runs[run] = sum;
    block.sync();
    if (run == 0) {
      const float all = sum_run(block, lane < kThreads / 32 ? shared.runs[lane] : 0.0f);
      if (lane == 0) shared.runs[0] = all;
    }
    block.sync();
    y[block.thread()] = shared.runs[0];
  }
};

// y[i] = the thread number at which the run of 32 of thread i begins.
struct FirstOfRun {
  static constexpr unsigned kThreads = 96;
  struct Shared {};
  float* y;
  void operator()(const HostBlock& block, Shared&) const {
    y[block.thread()] = block.first(static_cast<float>(block.thread()));
  }
};

struct Count {
  static constexpr unsigned kThreads = 64;
  using Shared = NoShared;
  int* calls;
  void operator()(const HostBlock& block, Shared&) const {
    ++calls[(block.z() * 2 + block.x()) * kThreads + block.thread()];
  }
};

// A kernel with this body, which may do things that a GPU does not define.
struct Wrong {
  static constexpr unsigned kThreads = 64;
  struct Shared {
    float unused;
  };
  void (*body)(const HostBlock& block);
  void operator()(const HostBlock& block, Shared&) const { body(block); }
};

using testing::stops;
bool stops(void (*body)(const HostBlock& block), Grid grid = {}) {
  return stops([&] { launch(Stream{}, grid, Wrong{body}); });
}

void sync_here_or_there(const HostBlock& block) {
  if (block.thread() < 32) {
    block.sync();
  } else {
    block.sync();
  }
}

TEST_SUITE("gpu/cuda/block") {
  TEST_CASE("threads of a block meet, in every block of the grid") {
    constexpr std::int64_t kFloats = 6 * 128;
    std::vector<float> x(kFloats), y(kFloats);
    for (std::int64_t i = 0; i < kFloats; ++i) x[i] = static_cast<float>(i);
    launch(Stream{}, {.x = 3, .y = 2}, Reverse{x.data(), y.data()});
    for (std::int64_t i = 0; i < kFloats; ++i) CHECK(y[i] == x[i / 128 * 128 + 127 - i % 128]);
  }

  TEST_CASE("runs of 32 exchange values, also while other runs wait") {
    std::vector<float> y(256, -1.0f);
    launch(Stream{}, {}, SumThreads{y.data()});
    for (const float sum : y) CHECK(sum == 255 * 256 / 2);
  }

  TEST_CASE("every thread gets the value of the first of its run") {
    std::vector<float> y(96, -1.0f);
    launch(Stream{}, {}, FirstOfRun{y.data()});
    for (int i = 0; i < 96; ++i) CHECK(y[i] == static_cast<float>(i / 32 * 32));
  }

  TEST_CASE("every thread of a kernel that shares nothing runs once") {
    std::vector<int> calls(2 * 3 * 64);
    launch(Stream{}, {.x = 2, .z = 3}, Count{calls.data()});
    for (const int count : calls) CHECK(count == 1);
  }

  TEST_CASE("a thread that does not meet the others of its run is found") {
    CHECK(!stops([](const HostBlock& block) { block.down(1.0f, block.x() + 1); }));
    CHECK(stops([](const HostBlock& block) {
      if (block.thread() != 7) block.down(1.0f, 1);
    }));
    CHECK(stops([](const HostBlock& block) { block.down(1.0f, block.thread() % 2); }));
    CHECK(stops([](const HostBlock& block) {
      block.thread() < 8 ? block.first(1.0f) : block.down(1.0f, 0);
    }));
    CHECK(stops([](const HostBlock& block) {
      for (unsigned i = 0; i < 1 + block.thread() / 16; ++i) block.first(1.0f);
    }));
  }

  TEST_CASE("a thread that does not meet the others of its block is found") {
    CHECK(!stops([](const HostBlock& block) { block.sync(); }));
    CHECK(stops([](const HostBlock& block) {
      if (block.thread() < 32) block.sync();
    }));
    CHECK(stops(sync_here_or_there));
  }

  TEST_CASE("a pack that is not aligned is found") {
    alignas(16) float values[8] = {};
    CHECK(!stops([&] { store_pack(values + 4, load_pack<4>(values)); }));
    CHECK(stops([&] { load_pack<4>(values + 1); }));
    CHECK(stops([&] { store_pack(values + 2, Pack<4>()); }));
    CHECK(!stops([&] { store_pack(values + 3, load_pack<1>(values + 1)); }));
  }

  TEST_CASE("grids that are too large for every GPU are refused") {
    const auto nothing = [](const HostBlock&) {};
    CHECK(!stops(nothing, {.x = 3, .y = 0}));
    CHECK(!stops(nothing, {.x = 0, .y = 65'535, .z = 65'535}));
    CHECK(stops(nothing, {.x = std::int64_t{1} << 31, .y = 0}));
    CHECK(stops(nothing, {.x = 0, .y = 65'536}));
    CHECK(stops(nothing, {.x = 0, .z = 65'536}));
    CHECK(stops(nothing, {.x = -1}));
  }
}

}  // namespace
}  // namespace es::gpu::cuda::on_host
