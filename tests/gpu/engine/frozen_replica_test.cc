#include "gpu/engine/frozen_replica.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "tests/support/seed.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kFloats = 16 * 1024;

// Parameters and two moments with different floats. `version` changes all of them.
void fill(Replica& replica, Version version) {
  replica.version = version;
  float value = static_cast<float>(version) * 1e6F;
  const auto fill_array = [&](auto& array) {
    for (std::int64_t i = 0; i < array.floats(); ++i) array.data()[i] = value++;
  };
  fill_array(replica.params);
  for (HeldArray& moment : replica.moments) fill_array(moment);
  for (EstContext& context : replica.contexts) context.version = version;
}

Replica replica_of(Version version) {
  Replica replica;
  replica.params = AlignedBuffer(kFloats);
  for (int m = 0; m < 2; ++m) replica.moments.emplace_back(kFloats);
  for (VirtualRank rank = 0; rank < 3; ++rank)
    replica.contexts.push_back({.rank = rank, .version = version, .cursor = {}, .stats = {1.0F}});
  fill(replica, version);
  return replica;
}

std::vector<std::byte> bytes_of(const Replica& replica) {
  std::vector<std::byte> all;
  const auto add = [&](const auto& array) {
    const auto* bytes = reinterpret_cast<const std::byte*>(array.data());
    all.insert(all.end(), bytes, bytes + array.bytes());
  };
  add(replica.params);
  for (const HeldArray& moment : replica.moments) add(moment);
  return all;
}

// Reads the rest of the arrays in order, from byte `at` on, in pieces of `size()` bytes, until
// `bytes` are read.
template <class Size>
Status read_from(FrozenReplica& frozen, std::size_t at, std::size_t bytes,
                 std::vector<std::byte>& out, Size size) {
  const std::size_t array_bytes = frozen.bytes(0);
  out.resize(frozen.arrays() * array_bytes);
  for (const std::size_t end = at + bytes; at < end;) {
    const std::size_t offset = at % array_bytes;
    const std::size_t piece =
        std::min({std::max<std::size_t>(1, size()), end - at, array_bytes - offset});
    ES_RETURN_IF_ERROR(frozen.read(at / array_bytes, offset, std::span(out).subspan(at, piece)));
    at += piece;
  }
  return {};
}

}  // namespace

TEST_SUITE("gpu/frozen_replica") {
  TEST_CASE("a reader gets the version of the freeze, at any time of the thaw") {
    const std::size_t all = 3 * kFloats * sizeof(float);
    const std::size_t one = all / 3;
    // In the middle of arrays and of floats, at their ends, before and after all of them.
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{1}, one - 1, one, one + 4, 2 * one + 7, all - 1, all}) {
      CAPTURE(at);
      Replica live = replica_of(1);
      const std::vector<std::byte> expected = bytes_of(live);
      FrozenReplica frozen(live, live.params.floats());
      std::vector<std::byte> read;
      REQUIRE(read_from(frozen, 0, at, read, [] { return 4099; }).ok());
      frozen.thaw();
      fill(live, 2);
      REQUIRE(read_from(frozen, at, all - at, read, [] { return 4099; }).ok());
      CHECK(read == expected);
      CHECK(frozen.version() == 1);
      REQUIRE(frozen.contexts().size() == 3);
      CHECK(frozen.contexts()[2].version == 1);
    }
  }

  TEST_CASE("the live replica may end after the thaw, and may be thawed again") {
    auto live = std::make_unique<Replica>(replica_of(1));
    const std::vector<std::byte> expected = bytes_of(*live);
    FrozenReplica frozen(*live, live->params.floats());
    frozen.thaw();
    live.reset();
    frozen.thaw();
    std::vector<std::byte> read;
    REQUIRE(read_from(frozen, 0, expected.size(), read, [] { return 1 << 20; }).ok());
    CHECK(read == expected);
  }

  TEST_CASE("with any order of the two threads every byte is of the version of the freeze") {
    std::mt19937_64 random(es::test::seed("reader and engine of a frozen replica"));
    Replica live = replica_of(0);
    const auto memory = std::make_shared<CopyMemory>(2);
    for (Version version = 1; version <= 300; ++version) {
      fill(live, version);
      const std::vector<std::byte> expected = bytes_of(live);
      FrozenReplica frozen(live, live.params.floats(), memory);
      std::vector<std::byte> read;
      std::atomic<std::size_t> pieces{0};
      std::atomic<bool> over{false};
      Status status;
      std::mt19937_64 sizes(random());
      std::thread reader([&] {
        status = read_from(frozen, 0, expected.size(), read, [&] {
          ++pieces;
          return sizes() % 20'000;
        });
        over = true;
      });
      // From before the first piece to after the last one.
      const std::size_t wait_for = random() % 24;
      while (pieces < wait_for && !over) std::this_thread::yield();
      frozen.thaw();
      fill(live, version + 1000);
      reader.join();
      REQUIRE(status.ok());
      CHECK(read == expected);
    }
  }

  TEST_CASE("after it was given up nothing is read any more, and the error has the reason") {
    Replica live = replica_of(1);
    FrozenReplica frozen(live, live.params.floats());
    std::vector<std::byte> out(16);
    REQUIRE(frozen.read(0, 0, out).ok());
    frozen.give_up("the disk is gone");
    frozen.give_up("later");
    frozen.thaw();
    const Status status = frozen.read(0, 16, out);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message == "the disk is gone");
  }

  TEST_CASE("memory of copies is used again up to its limit, if the size fits") {
    CopyMemory memory(2);
    std::vector<AlignedBuffer> arrays;
    for (int i = 0; i < 3; ++i) arrays.push_back(memory.take(1024));
    const std::vector<const float*> kept{arrays[0].data(), arrays[1].data()};
    for (AlignedBuffer& array : arrays) memory.give_back(std::move(array));
    CHECK(memory.take(2048).floats() == 2048);
    for (const float* expected : kept) {
      arrays[0] = memory.take(1024);
      CHECK(arrays[0].data() == expected);
      arrays.push_back(std::move(arrays[0]));
    }
  }
}

}  // namespace es::gpu
