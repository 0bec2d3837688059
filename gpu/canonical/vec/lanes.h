#pragma once
// One vector register of the kernel class for which this file is compiled, and the operations on it
// that the kernels use. The rest of vec/ is written once against these names.
//
// Everything in vec/ is in unnamed namespaces on purpose. Each class compiles the same headers for
// another instruction set. Internal linkage prevents the linker from merging their functions into
// one that the processor may be unable to execute. For the same reason nothing here uses templates
// of the standard library.
#if defined(__AVX512F__)
#include "gpu/canonical/vec/lanes_avx512.h"
#elif defined(__AVX2__)
#include "gpu/canonical/vec/lanes_avx2.h"
#else
#error "vec/ is compiled for AVX2 or AVX-512 only"
#endif

#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kPanelWidth = 2 * kWidth;  // columns of a full register tile
constexpr std::int64_t kLineFloats = 16;          // of a cache line

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};

// Constants in the type of a vector, for formulas that are written once (one_lane.h).
inline Vec like(Vec, float value) {
  return set(value);
}
inline IntVec ints_like(Vec, std::int32_t value) {
  return set_int(value);
}

// Returns test > 0 ? v : v * slope, or NaN where `test` is NaN.
inline Vec leaky(Vec v, Vec test, Vec slope) {
  return select(unordered(test, test), test, select(less(zero(), test), v, mul(v, slope)));
}
// The same with v as its test.
inline Vec leaky(Vec v, Vec slope) {
  return select(less(zero(), v), v, mul(v, slope));
}
// Returns the kept lanes of v; the other lanes are NaN where v is NaN, and +0 elsewhere.
inline Vec keep_if_or_nan(Test kept, Vec v) {
  return keep_if(either(kept, unordered(v, v)), v);
}

// How a body reads and writes a vector: all lanes, or only the first lanes (the others load as +0).
struct Whole {
  Vec load(const float* p) const { return es::gpu::load(p); }
  void store(float* p, Vec v) const { es::gpu::store(p, v); }
  Vec keep(Vec v) const { return v; }          // the lanes of this access; +0 in the others
  Vec keep_or(Vec v, Vec) const { return v; }  // the same, with the other lanes of another vector
  std::int64_t count() const { return kWidth; }
};
struct Part {
  explicit Part(std::int64_t count) : count_(count), mask_(first_lanes(count)) {}
  Vec load(const float* p) const { return es::gpu::load(p, mask_); }
  void store(float* p, Vec v) const { store_first(p, v, count_, mask_); }
  Vec keep(Vec v) const { return keep_first(v, mask_); }
  Vec keep_or(Vec v, Vec beyond) const { return first_or(v, beyond, mask_); }
  std::int64_t count() const { return count_; }

 private:
  std::int64_t count_;
  Mask mask_;
};

// Calls body(i, access, Constant<V>) so that groups of V vectors from i on cover [0, n): V = kVecs
// as long as that fits, then 1, and finally a part of one vector.
template <int kVecs, class Body>
inline __attribute__((always_inline)) void for_columns(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + kVecs * kWidth <= n; i += kVecs * kWidth) body(i, Whole(), Constant<kVecs>());
  for (; i + kWidth <= n; i += kWidth) body(i, Whole(), Constant<1>());
  if (i < n) body(i, Part(n - i), Constant<1>());
}

// As above, one vector at a time: body(i, access).
template <class Body>
inline __attribute__((always_inline)) void for_vectors(std::int64_t n, Body body) {
  for_columns<1>(n, [&](std::int64_t i, auto access, auto) { body(i, access); });
}

inline void copy_floats(float* to, const float* from, std::int64_t n) {
  for_vectors(n, [=](std::int64_t i, auto at) { at.store(to + i, at.load(from + i)); });
}

inline void zero_floats(float* to, std::int64_t n) {
  for_vectors(n, [=](std::int64_t i, auto at) { at.store(to + i, zero()); });
}

}  // namespace
}  // namespace es::gpu
