#include "store/kv/rocksdb_key_value_store.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <mutex>
#include <optional>
#include <shared_mutex>

#include "store/directory_sync.h"
#include "store/kv/keys.h"
#include "store/kv/rocksdb_directory.h"
#include "store/kv/seal_file.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

rocksdb::Slice slice(std::string_view text) {
  return {text.data(), text.size()};
}
std::string_view view(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

class RocksdbKeyValueStore final : public KeyValueStore {
 public:
  explicit RocksdbKeyValueStore(fs::path directory) : directory_(std::move(directory)) {}
  RocksdbKeyValueStore(const RocksdbKeyValueStore&) = delete;
  RocksdbKeyValueStore& operator=(const RocksdbKeyValueStore&) = delete;
  // Seals buffered changes too, so that a later loss of them is noticed.
  ~RocksdbKeyValueStore() override {
    // A destructor cannot report an error. Without the new seal the older one stays, which is still
    // true.
    if (writable_ && unsealed_) (void)seal();
  }

  // Called once, before any other call.
  Status open() {
    // access_ is not needed yet, because no other thread knows the object.
    const std::lock_guard lock(writing_);
    return open_database();
  }

  Result<std::optional<std::string>> get(std::string_view key) const override {
    const std::shared_lock lock(access_);
    if (!db_) return closed();
    std::string value;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), slice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return error("read", status);
    return std::optional<std::string>(std::move(value));
  }

  // Writes run one at a time. So after a synced write the newest change is on disk, and its number
  // may be sealed.
  Status write(const WriteBatch& batch, Durability durability) override {
    const std::lock_guard writing(writing_);
    const std::shared_lock lock(access_);
    if (!writable_) return closed();
    // Before anything is written, so that this error belongs to a write that has not happened.
    if (seal_is_due_) ES_RETURN_IF_ERROR(seal_newest());
    rocksdb::WriteBatch changes;
    for (const WriteBatch::Change& change : batch.changes()) {
      const rocksdb::Status status =
          change.value ? changes.Put(change.key, *change.value) : changes.Delete(change.key);
      if (!status.ok()) return error("written", status);
    }
    rocksdb::WriteOptions options;
    options.sync = durability == Durability::kSynced;
    const rocksdb::Status status = db_->Write(options, &changes);
    if (!status.ok()) return error("written", status);
    unsealed_ = true;
    // A buffered change may not be sealed: a power cut may lose it, and a seal beyond the newest
    // change on disk would make the directory count as damaged.
    if (durability == Durability::kBuffered) return {};
    // The change is on disk, and readers see it, so this write has succeeded even if it cannot be
    // sealed. Only a later loss of the end of the log would not be noticed. The next write makes up
    // for it, or fails.
    seal_is_due_ = !seal_newest().ok();
    return {};
  }

  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const override {
    const std::shared_lock lock(access_);
    if (!db_) return closed();
    const Range range(*db_, begin, end);
    rocksdb::Iterator& at = *range.iterator;
    for (at.Seek(slice(begin)); at.Valid(); at.Next())
      if (!visit(view(at.key()), view(at.value()))) break;
    if (!at.status().ok()) return error("read", at.status());
    return {};
  }

  Result<std::optional<KeyValue>> last(std::string_view begin,
                                       std::string_view end) const override {
    const std::shared_lock lock(access_);
    if (!db_) return closed();
    const Range range(*db_, begin, end);
    rocksdb::Iterator& at = *range.iterator;
    at.SeekToLast();
    if (!at.status().ok()) return error("read", at.status());
    if (!at.Valid()) return std::optional<KeyValue>();
    return std::optional<KeyValue>(KeyValue{at.key().ToString(), at.value().ToString()});
  }

  Status sync() override {
    const std::lock_guard writing(writing_);
    const std::shared_lock lock(access_);
    if (!writable_) return closed();
    return unsealed_ ? seal() : Status();
  }

  // After a failed write RocksDB writes nothing more, or loses some of the later writes, depending
  // on the error. A database that is opened again has read what is on the disk.
  Status recover() override {
    const std::lock_guard writing(writing_);
    const std::unique_lock lock(access_);
    // The database stays open for reading if the disk is still full. Closing it first would take it
    // from the readers in vain.
    if (const Status room = try_to_write(directory_); !room.ok())
      return failure(name() + " cannot be written: " + room.error().message);
    writable_ = false;
    seal_.reset();
    db_.reset();
    const Status opened = open_database();
    if (opened.ok()) return {};
    db_.reset();
    rocksdb::DB* db = nullptr;
    // The database could not be opened for writing. Readers continue with a read-only one, while
    // writable_ stays false.
    if (rocksdb::DB::OpenForReadOnly(database_options(), directory_.string(), &db).ok())
      db_.reset(db);
    return opened;
  }

 private:
  // An iterator over [begin, end). RocksDB keeps pointers to the bounds, so they live beside it.
  struct Range {
    Range(rocksdb::DB& db, std::string_view begin, std::string_view end)
        : lower(slice(begin)), upper(slice(end)) {
      rocksdb::ReadOptions options;
      options.iterate_lower_bound = &lower;
      options.iterate_upper_bound = &upper;
      iterator.reset(db.NewIterator(options));
    }
    rocksdb::Slice lower;
    rocksdb::Slice upper;
    std::unique_ptr<rocksdb::Iterator> iterator;
  };

  // The whole database is checked before anything is changed, because RocksDB removes unknown files
  // when it opens a database for writing.
  Status open_database() {
    ES_RETURN_IF_ERROR(check_directory(directory_));
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(database_options(), directory_.string(), &db);
    if (!status.ok()) return open_error(directory_, status);
    db_.reset(db);
    auto seal = SealFile::open(directory_);
    if (!seal) return seal.error();
    seal_.emplace(*std::move(seal));
    // The names of the seal file and of a new database. RocksDB forces those of its own files.
    ES_RETURN_IF_ERROR(sync_entries(directory_));
    ES_RETURN_IF_ERROR(sync_entries(parent_directory(directory_)));
    writable_ = true;
    // What opening has written, and what an earlier process left buffered, is now on disk and
    // sealed. A loss of the log after this is noticed.
    return this->seal();
  }

  Status seal() {
    // The log first, then the seal: after a crash in between, the seal is older than the log, which
    // is no damage.
    const rocksdb::Status synced = db_->SyncWAL();
    return synced.ok() ? seal_newest() : Status(error("written", synced));
  }

  // REQUIRES: the newest change is on disk.
  Status seal_newest() {
    ES_RETURN_IF_ERROR(seal_->write(db_->GetLatestSequenceNumber()));
    unsealed_ = false;
    seal_is_due_ = false;
    return {};
  }

  std::string name() const { return "state directory " + directory_.string(); }
  Error error(const char* action, const rocksdb::Status& status) const {
    return failure(name() + " cannot be " + action + ": " + status.ToString());
  }
  Error closed() const { return failure(name() + " cannot be opened again after an error"); }

  const fs::path directory_;
  std::mutex writing_;  // locked before access_
  mutable std::shared_mutex access_;
  std::unique_ptr<rocksdb::DB> db_;  // changed while both are locked
  std::optional<SealFile> seal_;     // guarded by writing_
  bool writable_ = false;            // guarded by writing_
  bool unsealed_ = false;     // guarded by writing_: something was written since the last seal
  bool seal_is_due_ = false;  // guarded by writing_: the newest change is on disk and not sealed
};

// Writes the schema version into a new store, and checks it in an existing one.
Status check_schema(KeyValueStore& store, const std::string& name) {
  const std::string key = KeyBuilder("meta").text("schema").key();
  const Result<std::optional<std::string>> found = store.get(key);
  if (!found) return found.error();
  if (*found == kSchemaVersion) return {};
  if (found->has_value())
    return failure("state directory " + name + ": schema version = \"" + **found +
                   "\": allowed is " + kSchemaVersion);
  // No schema, but some key: another program's database. Only an empty one is taken over. All keys
  // of this program begin with a lower-case letter and lie in this range.
  const Result<std::optional<KeyValue>> any = store.last({"\0", 1}, "\xff");
  if (!any) return any.error();
  if (any->has_value())
    return failure("state directory " + name + " is a database of some other program");
  WriteBatch batch;
  batch.put(key, kSchemaVersion);
  return store.write(batch, Durability::kSynced);
}

}  // namespace

Result<std::unique_ptr<KeyValueStore>> open_state_directory(const fs::path& directory) {
  auto store = std::make_unique<RocksdbKeyValueStore>(directory);
  ES_RETURN_IF_ERROR(store->open());
  ES_RETURN_IF_ERROR(check_schema(*store, directory.string()));
  return std::unique_ptr<KeyValueStore>(std::move(store));
}

}  // namespace es::store
