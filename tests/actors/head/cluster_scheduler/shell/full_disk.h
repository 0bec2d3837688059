#pragma once
// A store in memory whose disk can be full.
#include <memory>
#include <utility>

#include "actors/head/head_store.h"
#include "store/kv/memory_key_value_store.h"

namespace es::test {

class FullDisk final : public store::KeyValueStore {
 public:
  // `is_full` is read at every write, and outlives the store.
  explicit FullDisk(const bool& is_full) : is_full_(is_full) {}
  Result<std::optional<std::string>> get(std::string_view key) const override {
    return values_.get(key);
  }
  Status write(const store::WriteBatch& batch, store::Durability durability) override {
    ES_RETURN_IF_ERROR(recover());
    return values_.write(batch, durability);
  }
  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const override {
    return values_.scan(begin, end, visit);
  }
  Result<std::optional<store::KeyValue>> last(std::string_view begin,
                                              std::string_view end) const override {
    return values_.last(begin, end);
  }
  Status sync() override { return recover(); }
  Status recover() override {
    if (is_full_) return failure("the disk is full");
    return {};
  }

 private:
  store::MemoryKeyValueStore values_;
  const bool& is_full_;
};

}  // namespace es::test
