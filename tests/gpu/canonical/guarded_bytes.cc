#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "tests/gpu/canonical/kernel_testing.h"

namespace es::gpu::testing {

GuardedBytes::GuardedBytes(std::size_t bytes) : size_(bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = (bytes + page - 1) / page * page;
  map_size_ = used + page;
  void* map = mmap(nullptr, map_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ES_CHECK(map != MAP_FAILED);
  map_ = static_cast<std::uint8_t*>(map);
  ES_CHECK(mprotect(map_ + used, page, PROT_NONE) == 0);
  data_ = map_ + used - bytes;
  // Checks the bytes before the array too, in builds that look for such errors.
  ASAN_POISON_MEMORY_REGION(map_, used - bytes);
}

GuardedBytes::~GuardedBytes() {
  if (map_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(map_, map_size_);
  munmap(map_, map_size_);
}

}  // namespace es::gpu::testing
