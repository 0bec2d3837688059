#pragma once
// HeldArray: an array of floats of which only some ranges have memory. The addresses of all floats
// are reserved, so a float has the same place whatever else is held. An access outside of the held
// ranges ends the process at once, except in the page at the end of a range.
//
// Memory of a range that is let go returns to the system, and addresses without memory count
// neither as resident memory nor against RLIMIT_DATA. A large array asks for huge pages, as
// AlignedBuffer does.
//
// An array can be moved and copied. A copy holds the same ranges; a move keeps the addresses.
// Functions that need memory throw NoMemory (aligned_buffer.h) if it is missing.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gpu/base/aligned_buffer.h"

namespace es::gpu {

// The floats [begin, end).
struct FloatRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t floats() const { return end - begin; }
  bool operator==(const FloatRange&) const = default;
};

class HeldArray {
 public:
  HeldArray() = default;
  // Holds everything; all floats are +0. `purpose` says what the memory is for; it appears in the
  // text of NoMemory.
  explicit HeldArray(std::int64_t floats, const char* purpose = "an array");
  // Holds these ranges, as hold().
  HeldArray(std::int64_t floats, std::span<const FloatRange> ranges, const char* purpose);
  HeldArray(const HeldArray& other);
  HeldArray(HeldArray&& other) noexcept;
  HeldArray& operator=(HeldArray other) noexcept;
  ~HeldArray();

  // Holds these ranges and no others. What stays held keeps its values, and what is new is +0. The
  // memory of the rest is given back before new memory is taken. After NoMemory only the floats are
  // held that were held before too. REQUIRES: the ranges are not empty, ascending and disjoint, and
  // lie within the array.
  void hold(std::span<const FloatRange> ranges, const char* purpose);

  // What is held: the fewest possible ranges, ascending.
  const std::vector<FloatRange>& held() const { return held_; }
  std::int64_t held_floats() const;
  bool holds_all() const { return held_floats() == floats_; }

  float* data() { return data_; }
  const float* data() const { return data_; }
  std::int64_t floats() const { return floats_; }
  std::size_t bytes() const { return static_cast<std::size_t>(floats_) * sizeof(float); }

 private:
  void let_go(std::span<const FloatRange> pages);
  void acquire(std::span<const FloatRange> pages, const char* purpose);

  float* data_ = nullptr;  // nullptr: an array of no floats
  std::int64_t floats_ = 0;
  std::vector<FloatRange> held_;
};

}  // namespace es::gpu
