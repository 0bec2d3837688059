#include "store/kv/guarded_key_value_store.h"

#include <doctest/doctest.h>

#include "store/kv/memory_key_value_store.h"

using namespace es;
using namespace es::store;

namespace {

struct Switch {
  bool fails = false;
  bool writes_all_the_same = false;  // The write happens, and the disk reports a failure.
};

class SwitchedStore final : public KeyValueStore {
 public:
  explicit SwitchedStore(const Switch& how) : switch_(how) {}
  Result<std::optional<std::string>> get(std::string_view key) const override {
    return values_.get(key);
  }
  Status write(const WriteBatch& batch, Durability durability) override {
    if (switch_.fails && switch_.writes_all_the_same) late_ = batch;
    return switch_.fails ? Status(failure("no room")) : values_.write(batch, durability);
  }
  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const override {
    return values_.scan(begin, end, visit);
  }
  Result<std::optional<KeyValue>> last(std::string_view begin,
                                       std::string_view end) const override {
    return values_.last(begin, end);
  }
  Status sync() override { return recover(); }
  Status recover() override {
    if (switch_.fails) return failure("no room");
    return values_.write(std::exchange(late_, {}), Durability::kSynced);
  }

 private:
  const Switch& switch_;
  MemoryKeyValueStore values_;
  WriteBatch late_;
};

WriteBatch put(const std::string& key, const std::string& value) {
  WriteBatch batch;
  batch.put(key, value);
  return batch;
}

}  // namespace

TEST_SUITE("store/kv/guarded_key_value_store") {
  TEST_CASE("after a failed write nothing is written before the store has recovered") {
    Switch disk;
    GuardedKeyValueStore store(std::make_unique<SwitchedStore>(disk));
    REQUIRE(store.write(put("a", "1"), Durability::kSynced).ok());
    CHECK(store.try_write().ok());
    disk.fails = true;
    CHECK_FALSE(store.write(put("a", "2"), Durability::kSynced).ok());
    disk.fails = false;
    const Status refused = store.write(put("b", "1"), Durability::kSynced);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kRefused);
    CHECK(refused.error().message == "no room; no request is accepted until it can be written");
    CHECK(store.trouble()->message == refused.error().message);
    CHECK_FALSE(store.sync().ok());
    CHECK(*store.get("a") == "1");
    REQUIRE(store.recover().ok());
    CHECK_FALSE(store.trouble());
    CHECK(store.write(put("b", "1"), Durability::kSynced).ok());
  }

  TEST_CASE("a failed write has not happened for readers, even if the disk has kept it") {
    Switch disk{.writes_all_the_same = true};
    GuardedKeyValueStore store(std::make_unique<SwitchedStore>(disk));
    REQUIRE(store.write(put("a", "1"), Durability::kSynced).ok());
    disk.fails = true;
    WriteBatch batch = put("a", "2");
    batch.put("b", "new");
    CHECK_FALSE(store.write(batch, Durability::kSynced).ok());
    CHECK_FALSE(store.recover().ok());
    disk.fails = false;
    REQUIRE(store.recover().ok());
    CHECK(*store.get("a") == "1");
    CHECK_FALSE(store.get("b")->has_value());
  }
}
