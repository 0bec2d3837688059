#include "gpu/base/held_array.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

std::int64_t page_floats() {
  static const std::int64_t floats =
      ::sysconf(_SC_PAGESIZE) / static_cast<std::int64_t>(sizeof(float));
  return floats;
}

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

std::size_t physical_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Joins ranges that touch or overlap. REQUIRES: they are ascending by their beginnings.
std::vector<FloatRange> joined(std::span<const FloatRange> ranges) {
  std::vector<FloatRange> result;
  for (const FloatRange& range : ranges) {
    if (!result.empty() && range.begin <= result.back().end)
      result.back().end = std::max(result.back().end, range.end);
    else
      result.push_back(range);
  }
  return result;
}

// The pages of the array that contain these ranges.
std::vector<FloatRange> pages_of(std::span<const FloatRange> ranges) {
  std::vector<FloatRange> pages;
  const std::int64_t page = page_floats();
  for (const FloatRange& range : ranges)
    pages.push_back({range.begin / page * page, (range.end + page - 1) / page * page});
  return joined(pages);
}

// What of `ranges` is not in `others`. REQUIRES: both are ascending and disjoint.
std::vector<FloatRange> without(std::span<const FloatRange> ranges,
                                std::span<const FloatRange> others) {
  std::vector<FloatRange> rest;
  auto other = others.begin();
  for (FloatRange range : ranges) {
    while (other != others.end() && other->end <= range.begin) ++other;
    for (auto cut = other; cut != others.end() && cut->begin < range.end; ++cut) {
      if (range.begin < cut->begin) rest.push_back({range.begin, cut->begin});
      range.begin = std::min(range.end, cut->end);
    }
    if (range.begin < range.end) rest.push_back(range);
  }
  return rest;
}

// Reserves addresses without memory, at a given place or anywhere. Returns nullptr if the system
// refuses.
float* reserve(void* at, std::size_t bytes) {
  void* const p = ::mmap(at, bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
  if (p == MAP_FAILED) return nullptr;
#if defined(MADV_HUGEPAGE)
  // Only advice: a refusal has no effect. Memory that is made accessible later keeps it.
  if (bytes >= kHugePageBytes) ::madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return static_cast<float*>(p);
}

std::size_t reserved_bytes(std::int64_t floats) {
  const std::int64_t page = page_floats();
  return bytes_of((floats + page - 1) / page * page);
}

// As reserve(), with the alignment of huge pages where the array is large.
float* reserve_aligned(std::size_t bytes) {
  if (bytes < kHugePageBytes) return reserve(nullptr, bytes);
  auto* const all = reinterpret_cast<char*>(reserve(nullptr, bytes + kHugePageBytes));
  if (all == nullptr) return nullptr;
  const std::size_t over = reinterpret_cast<std::uintptr_t>(all) % kHugePageBytes;
  const std::size_t before = over == 0 ? 0 : kHugePageBytes - over;
  if (before != 0) ::munmap(all, before);
  ::munmap(all + before + bytes, kHugePageBytes - before);
  return reinterpret_cast<float*>(all + before);
}

std::int64_t sum_of(std::span<const FloatRange> ranges) {
  std::int64_t floats = 0;
  for (const FloatRange& range : ranges) floats += range.floats();
  return floats;
}

}  // namespace

HeldArray::HeldArray(std::int64_t floats, const char* purpose)
    : HeldArray(floats, std::vector<FloatRange>(floats == 0 ? 0 : 1, FloatRange{0, floats}),
                purpose) {}

HeldArray::HeldArray(std::int64_t floats, std::span<const FloatRange> ranges, const char* purpose)
    : floats_(floats) {
  if (floats == 0) return;
  data_ = reserve_aligned(reserved_bytes(floats));
  if (data_ == nullptr) throw NoMemory(purpose, bytes(), physical_bytes());
  try {
    hold(ranges, purpose);
  } catch (const NoMemory&) {
    ::munmap(data_, reserved_bytes(floats_));
    throw;
  }
}

HeldArray::HeldArray(const HeldArray& other)
    : HeldArray(other.floats_, std::span<const FloatRange>(), "a copy") {
  // Without the zeros of hold(), which would be overwritten at once.
  acquire(pages_of(other.held_), "a copy");
  held_ = other.held_;
  for (const FloatRange& range : held_)
    std::copy_n(other.data_ + range.begin, range.floats(), data_ + range.begin);
}

HeldArray::HeldArray(HeldArray&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      floats_(std::exchange(other.floats_, 0)),
      held_(std::exchange(other.held_, {})) {}

HeldArray& HeldArray::operator=(HeldArray other) noexcept {
  std::swap(data_, other.data_);
  std::swap(floats_, other.floats_);
  std::swap(held_, other.held_);
  return *this;
}

HeldArray::~HeldArray() {
  if (data_ != nullptr) ::munmap(data_, reserved_bytes(floats_));
}

std::int64_t HeldArray::held_floats() const {
  return sum_of(held_);
}

void HeldArray::let_go(std::span<const FloatRange> pages) {
  for (const FloatRange& range : pages)
    ES_CHECK(reserve(data_ + range.begin, bytes_of(range.floats())) != nullptr);
}

void HeldArray::acquire(std::span<const FloatRange> pages, const char* purpose) {
  for (const FloatRange& range : pages)
    if (::mprotect(data_ + range.begin, bytes_of(range.floats()), PROT_READ | PROT_WRITE) != 0)
      throw NoMemory(purpose, bytes_of(sum_of(pages)), physical_bytes());
}

void HeldArray::hold(std::span<const FloatRange> ranges, const char* purpose) {
  const std::vector<FloatRange> next = joined(ranges);
  ES_CHECK(next.empty() || (next.front().begin >= 0 && next.back().end <= floats_));
  const std::vector<FloatRange> added = without(next, held_), kept = without(next, added);
  const std::vector<FloatRange> kept_pages = pages_of(kept);
  let_go(without(pages_of(held_), kept_pages));
  held_ = kept;
  const std::vector<FloatRange> new_pages = without(pages_of(next), kept_pages);
  // A system that overcommits memory would grant any size (AlignedBuffer).
  const std::size_t wanted = bytes_of(sum_of(next));
  if (wanted >= kHugePageBytes && wanted > physical_bytes())
    throw NoMemory(purpose, wanted, physical_bytes());
  try {
    acquire(new_pages, purpose);
  } catch (const NoMemory&) {
    let_go(new_pages);
    throw;
  }
  // A page at the end of a range that was let go may still have its values. Besides, memory that is
  // written here costs no step its page faults.
  for (const FloatRange& range : added)
    std::memset(data_ + range.begin, 0, bytes_of(range.floats()));
  held_ = next;
}

}  // namespace es::gpu
