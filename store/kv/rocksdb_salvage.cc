#include "store/kv/rocksdb_salvage.h"

#include <rocksdb/db.h>

#include <memory>
#include <optional>

#include "store/kv/rocksdb_directory.h"
#include "store/kv/seal_file.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

using Pairs = std::map<std::string, std::string>;

// Reads what can still be read from a copy of the database.
class Salvager {
 public:
  Salvager(fs::path copy,
           std::function<std::vector<std::string>(const Pairs&, const std::string&)> starts,
           std::function<std::string(const std::string&)> name)
      : copy_(std::move(copy)), starts_(std::move(starts)), name_(std::move(name)) {}

  // Returns false if the database cannot be opened or a file is missing, so that nothing can be
  // read.
  bool read(const rocksdb::Options& options) {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, copy_.string(), &opened);
    db_.reset(opened);
    if (!status.ok()) return trouble_ = status.ToString(), false;
    newest_ = db_->GetLatestSequenceNumber();
    return read_all();
  }

  Pairs pairs;
  std::vector<std::string> losses;
  const std::string& trouble() const { return trouble_; }
  std::uint64_t newest() const { return newest_; }
  void close() { db_.reset(); }

 private:
  std::unique_ptr<rocksdb::Iterator> iterator() {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    return std::unique_ptr<rocksdb::Iterator>(db_->NewIterator(options));
  }

  bool read_all() {
    // Reads forward to a damaged place, continues behind it, and ends when no start behind it gives
    // a pair.
    auto at = iterator();
    at->SeekToFirst();
    // An undamaged database without a pair was read too.
    bool any = at->Valid() || at->status().ok();
    while (true) {
      for (; at->Valid(); at->Next()) take(*at);
      if (at->status().ok()) return any;
      trouble_ = at->status().ToString();
      // The pairs are in the order of their keys, so the last one read is the largest.
      const std::string last = pairs.empty() ? std::string() : pairs.rbegin()->first;
      at = behind(last);
      if (!at) return losses.push_back(gap(last, std::nullopt)), any;
      any = true;
    }
  }

  // Returns an iterator at a pair behind the damaged place after `last`, or nullptr if there is
  // none.
  std::unique_ptr<rocksdb::Iterator> behind(const std::string& last) {
    for (const std::string& start : starts_(pairs, last)) {
      auto at = iterator();
      at->Seek(start);
      // Either there is no key from here on, or this start lies in the damaged place.
      if (!at->Valid()) continue;
      const std::string found = at->key().ToString();
      // `found` is behind `last`, because the starts are. Each call therefore moves forward, and
      // read_all() ends.
      losses.push_back(gap(last, read_back(found, last)));
      return at;
    }
    return nullptr;
  }

  // Reads the pairs between the damaged place and `found` backwards. Returns the first key behind
  // the damage.
  std::string read_back(const std::string& found, const std::string& last) {
    std::string first = found;
    auto at = iterator();
    // Ends at the damaged place, at the latest at `last`, whose pair is known already.
    for (at->Seek(found); at->Valid() && at->key().ToString() > last; at->Prev()) {
      first = at->key().ToString();
      take(*at);
    }
    return first;
  }

  void take(const rocksdb::Iterator& at) {
    pairs.emplace(at.key().ToString(), at.value().ToString());
  }

  std::string gap(const std::string& last, const std::optional<std::string>& next) const {
    return "everything " + (last.empty() ? "from the beginning" : "after " + name_(last)) +
           (next ? " and before " + name_(*next) : " to the end") + ": " + trouble_;
  }

  const fs::path copy_;
  const std::function<std::vector<std::string>(const Pairs&, const std::string&)> starts_;
  const std::function<std::string(const std::string&)> name_;
  std::unique_ptr<rocksdb::DB> db_;
  std::string trouble_;
  std::uint64_t newest_ = 0;
};

// Copies the database without the log files for people. A file that cannot be read is a loss.
Status copy_database(const fs::path& from, const fs::path& to, std::vector<std::string>& losses) {
  std::error_code code;
  fs::remove_all(to, code);
  fs::create_directory(to, code);
  if (code) return failure(to.string() + ": cannot be created: " + code.message());
  for (fs::directory_iterator at(from, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    // Write-ahead logs have names such as 000012.log and are copied.
    if (name.starts_with("LOG") || name == "LOCK") continue;
    std::error_code copied;
    fs::copy_file(at->path(), to / name, copied);
    // A full disk is no loss of the database: with room the copy would be complete, so the recovery
    // ends here.
    if (copied == std::errc::no_space_on_device)
      return failure((to / name).string() + ": cannot be written: " + copied.message());
    if (copied) losses.push_back(at->path().string() + ": cannot be read: " + copied.message());
  }
  if (code) return failure(from.string() + ": cannot be read: " + code.message());
  return {};
}

rocksdb::Options lenient(const std::shared_ptr<Complaints>& complaints) {
  rocksdb::Options options = database_options();
  options.create_if_missing = false;
  options.paranoid_checks = false;
  options.verify_sst_unique_id_in_manifest = false;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  options.info_log = complaints;
  return options;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
    text.replace(at, from.size(), to);
}

struct RemoveAtEnd {
  const fs::path& path;
  ~RemoveAtEnd() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// Reports that the end of the log was cut. This is reported even if no pair between two others is
// known to be lost.
void note_cut(const fs::path& directory, std::uint64_t newest, std::vector<std::string>& losses) {
  const auto sealed = SealFile::read(directory);
  if (!sealed) {
    losses.push_back(sealed.error().message + ": newer changes may be lost");
  } else if (newest < *sealed) {
    losses.push_back("the newest " + std::to_string(*sealed - newest) +
                     " changes or more, which only a write-ahead log (.log) had; older records may "
                     "be in their place");
  }
}

void note_foreign_families(const fs::path& copy, std::vector<std::string>& losses) {
  std::vector<std::string> names;
  if (!rocksdb::DB::ListColumnFamilies(database_options(), copy.string(), &names).ok()) return;
  for (const std::string& name : names)
    if (name != rocksdb::kDefaultColumnFamilyName)
      losses.push_back("column family \"" + name + "\", which easyscaled does not write");
}

}  // namespace

Result<Salvage> salvage_database(
    const fs::path& directory, const fs::path& copy,
    const std::function<std::vector<std::string>(const Pairs&, const std::string&)>& starts,
    const std::function<std::string(const std::string&)>& name_of_key) {
  Salvage salvage;
  const RemoveAtEnd remove{copy};
  ES_RETURN_IF_ERROR(copy_database(directory, copy, salvage.losses));
  note_foreign_families(copy, salvage.losses);
  const auto complaints = std::make_shared<Complaints>();
  const rocksdb::Options options = lenient(complaints);
  auto salvager = std::make_unique<Salvager>(copy, starts, name_of_key);
  // The first reading trusts the manifest. If it lost something, the second one is tried too, on
  // the copy, because RepairDB changes files.
  if (!salvager->read(options) || !salvager->losses.empty()) {
    // RepairDB uses whatever the files of tables and logs contain, even if the manifest does not
    // list them. It omits a table with a damaged block, so its result can also be smaller.
    salvager->close();
    const rocksdb::Status repaired = rocksdb::RepairDB(copy.string(), options);
    auto second = std::make_unique<Salvager>(copy, starts, name_of_key);
    const bool reads = repaired.ok() && second->read(options);
    second->close();
    // More pairs win. On equality the first reading stays, which has followed the manifest.
    if (reads && second->pairs.size() > salvager->pairs.size()) {
      second->losses.push_back("what only the damaged file had: " + salvager->trouble());
      salvager = std::move(second);
    } else if (salvager->pairs.empty()) {
      return failure("state directory " + directory.string() +
                     ": nothing of it can be read: " + salvager->trouble());
    }
  }
  salvage.losses.insert(salvage.losses.end(), salvager->losses.begin(), salvager->losses.end());
  for (const std::string& line : complaints->lines()) salvage.losses.push_back(line);
  note_cut(directory, salvager->newest(), salvage.losses);
  salvager->close();
  for (std::string& line : salvage.losses)
    // The copy is removed at the end, so messages name the files of the original.
    replace_all(line, copy.string() + "/", directory.string() + "/");
  salvage.pairs = std::move(salvager->pairs);
  return salvage;
}

}  // namespace es::store
