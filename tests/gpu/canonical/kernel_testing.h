#pragma once
// What the kernel tests share: buffers that catch a read or write past their end, random numbers,
// and the comparison of kernel classes byte for byte.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gpu/canonical/kernels.h"

namespace es::gpu::testing {

// n values that end exactly at an inaccessible page, so that a kernel crashes if it reads or writes
// past them. The size decides the alignment of the start, so odd sizes test unaligned pointers.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t bytes);
  ~GuardedBytes();
  GuardedBytes(GuardedBytes&& other) noexcept;
  GuardedBytes& operator=(GuardedBytes&&) = delete;
  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::uint8_t* map_;
  std::size_t map_size_;
  std::uint8_t* data_;
  std::size_t size_;
};

class Floats {
 public:
  // Filled with NaN, so that an element which a kernel does not write is found.
  explicit Floats(std::int64_t n);
  Floats(std::int64_t n, const std::function<float()>& fill);

  float* data() const { return reinterpret_cast<float*>(bytes_.data()); }
  operator float*() const { return data(); }
  std::int64_t size() const { return size_; }
  // Index of the first byte-wise difference, or -1.
  std::int64_t first_difference(const Floats& other) const;

 private:
  GuardedBytes bytes_;
  std::int64_t size_;
};

// A workspace of exactly the requested floats plus alignment: 64-byte aligned, filled with NaN.
Floats workspace(std::size_t floats);

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // Uniform in [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high);
  bool coin() { return integer(0, 1) == 1; }
  float normal();
  Floats normals(std::int64_t n);
  template <class T>
  void shuffle(std::vector<T>& values) {
    std::shuffle(values.begin(), values.end(), engine_);
  }
  std::vector<std::int32_t> labels(std::int64_t n, std::int64_t classes);

 private:
  std::mt19937_64 engine_;
};

// Random strides of a matrix: row-major, column-major, or with gaps in both directions. Returns the
// floats that it spans.
inline std::int64_t layout(Random& random, std::int64_t rows, std::int64_t cols, std::int64_t& row,
                           std::int64_t& col) {
  const std::int64_t kind = random.integer(0, 3), gap = random.integer(0, 3);
  row = kind == 0 ? 1 : kind == 1 ? 2 * (cols + gap) : cols + gap;
  col = kind == 0 ? rows + gap : kind == 1 ? 2 : 1;
  return (rows - 1) * row + (cols - 1) * col + 1;
}

// Workers for phases.h: one that does everything, or several whose parts are cut at random places
// and done in a random order, as threads may do them.
class TestWorkers {
 public:
  TestWorkers() = default;
  explicit TestWorkers(Random& random)
      : random_(&random), threads_(static_cast<int>(random.integer(1, 9))) {}
  int threads() const { return threads_; }
  void share(std::int64_t count, std::int64_t floats,
             const std::function<void(std::int64_t, std::int64_t)>& task) const;

 private:
  Random* random_ = nullptr;
  int threads_ = 1;
};

// The scalar table. The others must give equal results.
const KernelTable& reference();
// The vector classes that this machine has. Prints once which ones are skipped.
const std::vector<const KernelTable*>& vector_classes();

// Checks that `run(table)`, which returns the outputs of one computation, gives the same bytes for
// every class; returns the outputs of the scalar class.
std::vector<Floats> same_in_all_classes(
    const std::string& what, const std::function<std::vector<Floats>(const KernelTable&)>& run);

// The same for an operator of phases.h, which every class computes once as a whole and several
// times in parts.
std::vector<Floats> same_however_shared(
    const std::string& what, Random& random,
    const std::function<std::vector<Floats>(const KernelTable&, const TestWorkers&)>& run);

// A double-precision DOT with a bound on its difference from binary32 in the order of G1.
struct Dot {
  double sum = 0, magnitude = 0;
  std::int64_t depth = 0;
  void step(double a, double b) {
    sum += a * b;
    magnitude += a * b < 0 ? -a * b : a * b;
    ++depth;
  }
  // Every rounding has an error of at most 2^-24 of a partial sum: one rounding for each k of a
  // chunk, one for each further chunk, and one for a bias.
  double bound() const;
};

// Checks |actual - expected| <= bound.
void check_near(float actual, double expected, double bound, const std::string& what);

// "conv n=1 h=8 ...", for messages.
std::string text(const ConvShape& s);

}  // namespace es::gpu::testing
