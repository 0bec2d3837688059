#pragma once
// Shared parts of the tests of the CUDA device's kernels. The same tests are built twice: for the
// kernels on host threads (run_on_host.cc), and for a GPU (run_on_gpu.cc). Both must equal the
// scalar class bit for bit.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gpu/canonical/phases.h"
#include "gpu/cuda/device_tables.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {

const cuda::DeviceKernels& device();
// Waits until the device has finished all work. Afterwards the host may read the results. Ends the
// program with an error when the device is lost.
void finish();
// Whether a check ends the process: on the host, in a child process. On a GPU nothing is tried, and
// the answer is no.
bool stops(const std::function<void()>& run);

// Memory that both host and device can access, such as that of Floats (GuardedBytes).
void* take_visible(std::size_t bytes);
void give_back_visible(void* memory, std::size_t bytes);

template <class T>
struct Visible {
  using value_type = T;
  Visible() = default;
  template <class U>
  Visible(const Visible<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(take_visible(n * sizeof(T))); }
  void deallocate(T* memory, std::size_t n) { give_back_visible(memory, n * sizeof(T)); }
  bool operator==(const Visible&) const = default;
};
template <class T>
using Numbers = std::vector<T, Visible<T>>;

constexpr cuda::Stream kStream;

// Normal numbers with zeros of both signs, subnormal and large numbers in between.
inline Floats mixed(Random& random, std::int64_t n) {
  constexpr float kRare[] = {0.0f,       -0.0f,   0x1p-149f, -0x1p-149f, 0x1.8p-127f,
                             -0x1p-126f, 0x1p40f, -0x1p40f,  1.0f,       -1.0f};
  return Floats(n, [&] {
    const std::int64_t at = random.integer(0, 199);
    return at < std::ssize(kRare) ? kRare[at] : random.normal();
  });
}
// Any floats, including infinities and NaN.
inline Floats any_floats(Random& random, std::int64_t n) {
  constexpr float kSpecial[] = {0.0f,      -0.0f,  INFINITY,        -INFINITY,       NAN,
                                0x1p-149f, 100.0f, 0x1.fffffep127f, -0x1.fffffep127f};
  return Floats(n, [&] {
    const std::int64_t at = random.integer(0, 39);
    if (at < std::ssize(kSpecial)) return kSpecial[at];
    if (at < 20) return 20 * random.normal();
    return std::bit_cast<float>(static_cast<std::uint32_t>(random.integer(0, 0xffffffff)));
  });
}
inline Floats copy(const Floats& x) {
  finish();
  return Floats(x.size(), [p = x.data()]() mutable { return *p++; });
}
inline Numbers<std::int32_t> labels(Random& random, std::int64_t n, std::int64_t classes) {
  const auto drawn = random.labels(n, classes);
  return {drawn.begin(), drawn.end()};
}
// Outputs of these sizes, filled with NaN.
inline std::vector<Floats> outputs(const std::vector<std::int64_t>& sizes) {
  std::vector<Floats> out;
  for (const std::int64_t size : sizes) out.emplace_back(size);
  return out;
}

// Checks all bytes. The bits of a NaN are not defined.
inline void check_same(const std::string& what, const std::vector<Floats>& expected,
                       const std::vector<Floats>& actual) {
  INFO(what);
  finish();
  REQUIRE(expected.size() == actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("output ", i);
    REQUIRE(expected[i].size() == actual[i].size());
    for (std::int64_t j = 0; j < expected[i].size(); ++j) {
      if (std::isnan(expected[i][j]) && std::isnan(actual[i][j])) continue;
      if (std::bit_cast<std::uint32_t>(expected[i][j]) !=
          std::bit_cast<std::uint32_t>(actual[i][j])) {
        INFO("element ", j, " of ", expected[i].size());
        REQUIRE(actual[i][j] == expected[i][j]);
        FAIL("zeros of another sign");
      }
    }
  }
}

// A name for messages, such as "batch norm 3 x 4".
inline std::string shaped(const char* what, std::int64_t rows, std::int64_t cols) {
  return std::string(what) + " " + std::to_string(rows) + " x " + std::to_string(cols);
}

}  // namespace es::gpu::testing
