#include "gpu/optim/replica.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "gpu/base/digest_chunk.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/replica") {
  using namespace es;
  using namespace es::gpu;

  ParamTable table_of(const std::vector<std::int64_t>& counts) {
    ParamTable table;
    for (const std::int64_t count : counts) {
      ParamInfo info{.name = "p" + std::to_string(table.params().size()), .torch_shape = {count}};
      info.order.outer = count;
      table.add(info);
    }
    return table;
  }

  // One parameter or several; chunks that end inside of one, at the end of the array, or in neither
  // place.
  const std::vector<std::int64_t> kTables[] = {{5},
                                               {kDigestChunkFloats},
                                               {kDigestChunkFloats - 1, 16},
                                               {kDigestChunkFloats + 1},
                                               {70'000, 3, 40'000, 1},
                                               {16, 2 * kDigestChunkFloats - 16}};

  Replica random_replica(const ParamTable& table, std::mt19937_64& random) {
    Replica replica = empty_replica(table, 2);
    for (float* const array :
         {replica.params.data(), replica.moments[0].data(), replica.moments[1].data()})
      for (const ParamInfo& p : table.params())
        for (std::int64_t i = 0; i < p.count; ++i)
          array[p.offset + i] = std::uniform_real_distribution<float>(-1, 1)(random);
    replica.contexts.push_back({.rank = 0, .version = 7, .cursor = {1, 2}, .stats = {}});
    return replica;
  }

  template <class Array>
  std::span<const std::byte> bytes_of(const Array& array) {
    return std::as_bytes(std::span(array.data(), static_cast<std::size_t>(array.floats())));
  }

  void add_in_pieces(ArrayDigest & digest, std::span<const std::byte> bytes,
                     std::mt19937_64 & random) {
    while (!bytes.empty()) {
      const std::size_t most = random() % 3 == 0 ? 300'000 : random() % 2 == 0 ? 70'000 : 1'000;
      const std::size_t piece = std::min<std::size_t>(bytes.size(), 1 + random() % most);
      digest.add(bytes.first(piece));
      bytes = bytes.subspan(piece);
    }
  }

  TEST_CASE("digests do not depend on the pieces in which arrays are passed") {
    std::mt19937_64 random(test::seed("array digest"));
    for (const auto& counts : kTables) {
      const ParamTable table = table_of(counts);
      const Replica replica = random_replica(table, random);
      for (int trial = 0; trial < 5; ++trial) {
        ArrayDigest params(table), state(table);
        add_in_pieces(params, bytes_of(replica.params), random);
        for (const HeldArray& moment : replica.moments)
          add_in_pieces(state, bytes_of(moment), random);
        state.add(replica.contexts);
        CHECK(params.finish() == params_digest(table, replica));
        CHECK(state.finish() == state_digest(table, replica));
      }
    }
  }

  TEST_CASE("the digest of an array is made of those of its chunks and of the rest") {
    std::mt19937_64 random(test::seed("array digest chunks"));
    for (const auto& counts : kTables) {
      const ParamTable table = table_of(counts);
      const Replica replica = random_replica(table, random);
      std::span<const std::byte> rest = bytes_of(replica.params);
      std::vector<Digest> chunks;
      for (; rest.size() >= kDigestChunkBytes; rest = rest.subspan(kDigestChunkBytes))
        chunks.push_back(digest_of(rest.first(kDigestChunkBytes)));
      CHECK(array_digest(table, chunks, rest, {}) == params_digest(table, replica));
    }
  }

  TEST_CASE("one changed bit changes the digests, and another table too") {
    std::mt19937_64 random(test::seed("array digest change"));
    for (const auto& counts : kTables) {
      const ParamTable table = table_of(counts);
      Replica replica = random_replica(table, random);
      const Digest params = params_digest(table, replica), state = state_digest(table, replica);
      const auto at = static_cast<std::int64_t>(
          random() % static_cast<std::uint64_t>(table.params().back().count));
      for (float* const array : {replica.params.data(), replica.moments[1].data()}) {
        float& value = array[table.params().back().offset + at];
        const float before = value;
        value = -value;
        CHECK((params_digest(table, replica) != params) == (array == replica.params.data()));
        CHECK((state_digest(table, replica) != state) == (array != replica.params.data()));
        value = before;
      }
    }
    const ParamTable one = table_of({32}), two = table_of({16, 16});
    CHECK(params_digest(one, empty_replica(one, 0)) != params_digest(two, empty_replica(two, 0)));
  }
}
