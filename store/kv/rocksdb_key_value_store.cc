#include "store/kv/rocksdb_key_value_store.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include "store/kv/keys.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchemaVersion = "1";

rocksdb::Slice slice(std::string_view text) {
  return {text.data(), text.size()};
}
std::string_view view(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

class RocksdbKeyValueStore final : public KeyValueStore {
 public:
  RocksdbKeyValueStore(std::unique_ptr<rocksdb::DB> db, std::string name)
      : db_(std::move(db)), name_(std::move(name)) {}

  Result<std::optional<std::string>> get(std::string_view key) const override {
    std::string value;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), slice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return error("read", status);
    return std::optional<std::string>(std::move(value));
  }

  Status write(const WriteBatch& batch, Durability durability) override {
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
    return {};
  }

  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const override {
    const Range range(*db_, begin, end);
    rocksdb::Iterator& at = *range.iterator;
    for (at.Seek(slice(begin)); at.Valid(); at.Next())
      if (!visit(view(at.key()), view(at.value()))) break;
    if (!at.status().ok()) return error("read", at.status());
    return {};
  }

  Result<std::optional<KeyValue>> last(std::string_view begin,
                                       std::string_view end) const override {
    const Range range(*db_, begin, end);
    rocksdb::Iterator& at = *range.iterator;
    at.SeekToLast();
    if (!at.status().ok()) return error("read", at.status());
    if (!at.Valid()) return std::optional<KeyValue>();
    return std::optional<KeyValue>(KeyValue{at.key().ToString(), at.value().ToString()});
  }

 private:
  // An iterator over [begin, end). RocksDB keeps pointers to the bounds.
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

  Error error(const char* action, const rocksdb::Status& status) const {
    return failure("state directory " + name_ + " cannot be " + action + ": " + status.ToString());
  }

  std::unique_ptr<rocksdb::DB> db_;
  std::string name_;
};

rocksdb::Options database_options() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  // The default mode forgets silently whatever follows a damaged entry of the log.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.keep_log_file_num = 2;
  return options;
}

// RocksDB takes a directory without the file CURRENT for an empty database. Where other files of a
// database are, that file was lost, and with it everything that must not be overwritten.
Status check_not_beheaded(const fs::path& directory) {
  std::error_code code;
  if (!fs::exists(directory, code) || fs::exists(directory / "CURRENT", code)) return {};
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".sst" || extension == ".log")
      return failure("state directory " + directory.string() + " is damaged: it has " +
                     entry.path().filename().string() + ", but no file CURRENT");
  }
  if (code)
    return failure("state directory " + directory.string() + " cannot be read: " + code.message());
  return {};
}

Status check_place(const fs::path& directory) {
  std::error_code code;
  const fs::path parent = fs::absolute(directory).lexically_normal().parent_path();
  if (!fs::is_directory(parent, code))
    return not_found("state directory " + directory.string() + ": allowed is a directory in one " +
                     "that exists, but " + parent.string() + " does not");
  if (fs::exists(directory, code) && !fs::is_directory(directory, code))
    return failure("state directory " + directory.string() + " is a file: allowed is a directory");
  return check_not_beheaded(directory);
}

// The two messages of RocksDB 7.8: locked by another process, and by this one.
bool says_locked(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return status.IsIOError() && (text.find("While lock file") != std::string::npos ||
                                text.find("lock hold by current process") != std::string::npos);
}

// A new store gets the version of the schema, an old one must have it.
Status check_schema(KeyValueStore& store, const std::string& name) {
  const std::string key = KeyBuilder("meta").text("schema").key();
  const Result<std::optional<std::string>> found = store.get(key);
  if (!found) return found.error();
  if (*found == kSchemaVersion) return {};
  if (found->has_value())
    return failure("state directory " + name + ": schema version = \"" + **found +
                   "\": allowed is " + kSchemaVersion);
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
  const std::string name = directory.string();
  ES_RETURN_IF_ERROR(check_place(directory));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(database_options(), name, &db);
  if (says_locked(status))
    return refused("state directory " + name +
                   " is in use by another easyscaled: allowed is one at a time");
  if (!status.ok())
    return failure("state directory " + name + " cannot be opened: " + status.ToString());
  std::unique_ptr<KeyValueStore> store =
      std::make_unique<RocksdbKeyValueStore>(std::unique_ptr<rocksdb::DB>(db), name);
  ES_RETURN_IF_ERROR(check_schema(*store, name));
  return store;
}

}  // namespace es::store
