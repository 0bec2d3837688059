// Blocks of device memory: none overlap, and all of the memory comes back.
#include "gpu/cuda/device_pool.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/seed.h"

namespace es::gpu::cuda {
namespace {

constexpr std::size_t kUnit = DevicePool::kAlignment;

struct Memory {
  explicit Memory(std::size_t bytes) : bytes(new std::byte[bytes]) {
    pool->provide(begin(), bytes);
  }
  std::byte* begin() const { return bytes.get(); }

  std::unique_ptr<std::byte[]> bytes;
  std::shared_ptr<DevicePool> pool = std::make_shared<DevicePool>();
};

bool is_filled_with(const std::byte* data, std::size_t bytes, std::byte value) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (data[i] != value) return false;
  return true;
}

TEST_SUITE("gpu/cuda/device_pool") {
  TEST_CASE("no block is given before there is memory, or when none is left") {
    const auto empty = std::make_shared<DevicePool>();
    CHECK(empty->take(1) == nullptr);
    CHECK_FALSE(empty->contains(&empty));
    Memory memory(3 * kUnit + kUnit / 2);
    CHECK(memory.pool->capacity() == 3 * kUnit);
    auto first = memory.pool->take(2 * kUnit);
    CHECK(memory.pool->take(kUnit + 1) == nullptr);
    const auto second = memory.pool->take(1);
    CHECK(first.get() == memory.begin());
    CHECK(second.get() == memory.begin() + 2 * kUnit);
    CHECK(memory.pool->contains(memory.begin()));
    CHECK(memory.pool->contains(memory.begin() + 3 * kUnit - 1));
    CHECK_FALSE(memory.pool->contains(memory.begin() + 3 * kUnit));
    CHECK_FALSE(memory.pool->contains(&memory));
    CHECK(memory.pool->take(1) == nullptr);
    first.reset();
    CHECK(memory.pool->take(2 * kUnit) != nullptr);
  }

  TEST_CASE("a block is in use while it or a part of it is referenced") {
    Memory memory(kUnit);
    auto block = memory.pool->take(kUnit);
    std::shared_ptr<const std::byte> piece(block, block.get() + 16);
    block.reset();
    CHECK(memory.pool->take(1) == nullptr);
    piece.reset();
    CHECK(memory.pool->taken() == 0);
    CHECK(memory.pool->take(kUnit) != nullptr);
  }

  TEST_CASE("blocks of any size never overlap, in any order of allocation and release") {
    std::mt19937_64 random(test::seed("device pool"));
    Memory memory(64 * kUnit);
    struct Held {
      DevicePool::Block block;
      std::size_t bytes;
      std::byte value;
    };
    std::vector<Held> held;
    for (int turn = 0; turn < 5000; ++turn) {
      const std::size_t bytes = 1 + random() % (12 * kUnit);
      const auto value = static_cast<std::byte>(random());
      if (auto block = memory.pool->take(bytes)) {
        std::fill_n(block.get(), bytes, value);
        held.push_back({std::move(block), bytes, value});
      }
      if (held.empty() || random() % 2 == 0) continue;
      const std::size_t index = random() % held.size();
      CHECK(is_filled_with(held[index].block.get(), held[index].bytes, held[index].value));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(index));
    }
    held.clear();
    CHECK(memory.pool->taken() == 0);
    CHECK(memory.pool->take(64 * kUnit) != nullptr);  // In one piece again.
  }

  TEST_CASE("threads allocate and release at the same time") {
    Memory memory(16 * kUnit);
    const auto work = [&memory] {
      for (int turn = 0; turn < 5000; ++turn)
        if (const auto block = memory.pool->take(1 + static_cast<std::size_t>(turn) % (3 * kUnit)))
          *block = std::byte{1};
    };
    { const std::jthread one(work), two(work); }
    CHECK(memory.pool->take(16 * kUnit) != nullptr);
  }
}

}  // namespace
}  // namespace es::gpu::cuda
