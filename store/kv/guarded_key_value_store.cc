#include "store/kv/guarded_key_value_store.h"

#include "store/kv/keys.h"

namespace es::store {
namespace {

// Erases a key that no program writes.
WriteBatch small_write() {
  WriteBatch batch;
  batch.erase(KeyBuilder("meta").text("writable").key());
  return batch;
}

Error not_accepting(const Error& reason) {
  return refused(reason.message + "; no request is accepted until it can be written");
}

}  // namespace

std::optional<Error> GuardedKeyValueStore::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

Status GuardedKeyValueStore::write(const WriteBatch& batch, Durability durability) {
  if (const auto known = trouble()) return *known;
  const Status written = values_->write(batch, durability);
  return written.ok() ? written : fail(batch, written.error());
}

Status GuardedKeyValueStore::sync() {
  if (const auto known = trouble()) return *known;
  const Status synced = values_->sync();
  return synced.ok() ? synced : fail({}, synced.error());
}

Status GuardedKeyValueStore::try_write() {
  return write(small_write(), Durability::kSynced);
}

// Remembers the previous values. If two failed writes change one key, try_emplace keeps the value
// from before the first one.
Status GuardedKeyValueStore::fail(const WriteBatch& batch, const Error& reason) {
  const std::lock_guard lock(mutex_);
  // If a value cannot be read now, it is not remembered, and recover() does not touch its key.
  for (const WriteBatch::Change& change : batch.changes())
    if (const auto old_value = values_->get(change.key); old_value.ok())
      before_.try_emplace(change.key, *old_value);
  trouble_ = not_accepting(reason);
  return *trouble_;
}

Status GuardedKeyValueStore::recover() {
  // Holding the lock keeps trouble_ set for all other calls until the undo is on disk.
  const std::lock_guard lock(mutex_);
  // First the store reads what the disk has kept, which may include the failed writes. The undo
  // then writes the values from before them. It also contains a small write, so the disk is tested
  // even if there is nothing to undo.
  Status status = values_->recover();
  WriteBatch undo = small_write();
  for (const auto& [key, value] : before_) value ? undo.put(key, *value) : undo.erase(key);
  if (status.ok()) status = values_->write(undo, Durability::kSynced);
  if (!status.ok()) return trouble_ = not_accepting(status.error()), *trouble_;
  // Only now: while an undo has failed, the next recover() has to repeat it.
  before_.clear();
  trouble_.reset();
  return {};
}

}  // namespace es::store
