#include "tests/fuzz/cost.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> largest{0};

void* counted(std::size_t bytes) {
  std::size_t before = largest.load();
  while (bytes > before && !largest.compare_exchange_weak(before, bytes)) {
  }
  return std::malloc(bytes != 0 ? bytes : 1);
}

void* counted_or_throw(std::size_t bytes) {
  if (void* memory = counted(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// All forms but those for over-aligned types, which no reader uses. The forms of a sanitizer would
// not work together with these.
void* operator new(std::size_t bytes) {
  return counted_or_throw(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted_or_throw(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace es::test {

std::size_t take_largest_allocation() {
  return largest.exchange(0);
}

void expect_end_within(unsigned seconds) {
  ::alarm(seconds);
}

}  // namespace es::test
