// The contract of KeyValueStore, for each implementation.
#include "store/kv/key_value_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "store/kv/memory_key_value_store.h"
#include "store/kv/rocksdb_key_value_store.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

// One open store of the kind.
class Fixture {
 public:
  explicit Fixture(bool on_disk) {
    if (!on_disk) {
      store_ = std::make_unique<MemoryKeyValueStore>();
      return;
    }
    auto opened = open_state_directory(directory_ / "state");
    REQUIRE(opened.ok());
    store_ = std::move(*opened);
  }
  KeyValueStore& store() { return *store_; }

 private:
  TempDirectory directory_;
  std::unique_ptr<KeyValueStore> store_;
};

void put(KeyValueStore& store, const std::string& key, const std::string& value) {
  WriteBatch batch;
  batch.put(key, value);
  REQUIRE(store.write(batch, Durability::kBuffered).ok());
}

std::vector<KeyValue> scan(const KeyValueStore& store, std::string_view begin,
                           std::string_view end) {
  std::vector<KeyValue> pairs;
  REQUIRE(store
              .scan(begin, end,
                    [&](std::string_view key, std::string_view value) {
                      pairs.push_back({std::string(key), std::string(value)});
                      return true;
                    })
              .ok());
  return pairs;
}

}  // namespace

TEST_SUITE("store/kv/key_value_store") {
  TEST_CASE("a batch happens as a whole and in order") {
    for (const bool on_disk : {false, true}) {
      Fixture fixture(on_disk);
      WriteBatch batch;
      batch.put("a", "1");
      batch.put("b", "2");
      batch.erase("a");
      batch.put("b", "3");
      REQUIRE(fixture.store().write(batch, Durability::kSynced).ok());
      CHECK_FALSE(fixture.store().get("a")->has_value());
      CHECK(*fixture.store().get("b") == "3");
    }
  }

  TEST_CASE("keys and values may hold any bytes, and the order is that of unsigned bytes") {
    for (const bool on_disk : {false, true}) {
      Fixture fixture(on_disk);
      const std::string zero("k\0", 2), high("k\xff"), low("k\x01");
      put(fixture.store(), high, std::string("\0\xff", 2));
      put(fixture.store(), zero, "");
      put(fixture.store(), low, "x");
      CHECK(scan(fixture.store(), "k", "l") ==
            std::vector<KeyValue>{{zero, ""}, {low, "x"}, {high, std::string("\0\xff", 2)}});
    }
  }

  TEST_CASE("a visitor that returns false ends the scan") {
    for (const bool on_disk : {false, true}) {
      Fixture fixture(on_disk);
      for (const char* key : {"a", "b", "c"}) put(fixture.store(), key, "");
      int visits = 0;
      REQUIRE(fixture.store()
                  .scan("a", "z", [&](std::string_view, std::string_view) { return ++visits < 2; })
                  .ok());
      CHECK(visits == 2);
    }
  }

  TEST_CASE("thousands of random operations give the same results as a map") {
    for (const bool on_disk : {false, true}) {
      Fixture fixture(on_disk);
      std::map<std::string, std::string> model;
      std::mt19937_64 random(seed("key value operations"));
      const auto key = [&] { return "k/" + std::to_string(random() % 200); };
      for (int round = 0; round < 3000; ++round) {
        const std::string a = key(), b = key();
        switch (random() % 4) {
          case 0:
            put(fixture.store(), a, std::to_string(round));
            model[a] = std::to_string(round);
            break;
          case 1: {
            WriteBatch batch;
            batch.erase(a);
            REQUIRE(fixture.store().write(batch, Durability::kBuffered).ok());
            model.erase(a);
            break;
          }
          case 2: {
            const auto found = fixture.store().get(a);
            REQUIRE(found.ok());
            REQUIRE(found->has_value() == model.contains(a));
            if (found->has_value()) REQUIRE(**found == model[a]);
            break;
          }
          default: {
            const auto& [begin, end] = std::minmax(a, b);
            std::vector<KeyValue> expected;
            for (auto at = model.lower_bound(begin); at != model.lower_bound(end); ++at)
              expected.push_back({at->first, at->second});
            REQUIRE(scan(fixture.store(), begin, end) == expected);
            const auto last = fixture.store().last(begin, end);
            REQUIRE(last.ok());
            REQUIRE(last->has_value() == !expected.empty());
            if (last->has_value()) REQUIRE(**last == expected.back());
          }
        }
      }
    }
  }
}
