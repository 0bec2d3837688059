#include "store/kv/rocksdb_directory.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/sst_file_reader.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "store/kv/seal_file.h"
#include "store/system_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdvice = "; easyscaled --head --recover continues with the undamaged part";
// RocksDB removes a file with this name when it opens the database, if a crash leaves it behind.
constexpr const char* kProbeName = "probe.dbtmp";
constexpr std::size_t kProbeBytes = 256 * 1024;

std::string name_of(const fs::path& directory) {
  return "state directory " + directory.string();
}

Error damaged(const fs::path& directory, const std::string& what) {
  return failure(name_of(directory) + " is damaged: " + what + kAdvice);
}

// Recognises the two messages of RocksDB 7.8: the database is locked by another process, or by this
// one.
bool says_locked(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return status.IsIOError() && (text.find("While lock file") != std::string::npos ||
                                text.find("lock hold by current process") != std::string::npos);
}

Status check_place(const fs::path& directory) {
  std::error_code code;
  const fs::path parent = fs::absolute(directory).lexically_normal().parent_path();
  if (!fs::is_directory(parent, code))
    return not_found("state directory " + directory.string() + ": allowed is a directory in one " +
                     "that exists, but " + parent.string() + " does not");
  if (fs::exists(directory, code) && !fs::is_directory(directory, code))
    return failure("state directory " + directory.string() + " is a file: allowed is a directory");
  const fs::path original = original_during_recovery(directory);
  if (!fs::exists(directory, code) && fs::exists(original, code))
    return failure("state directory " + directory.string() + " is missing, but " +
                   original.string() + " exists: its recovery was interrupted; easyscaled --head " +
                   "--recover completes it");
  return {};
}

// The files of a database that contain data. RocksDB treats a directory without the file CURRENT as
// an empty database, and would overwrite these files.
Result<std::vector<fs::path>> files_with_content(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    const std::string extension = at->path().extension().string();
    if (extension == ".sst" || extension == ".log" || name.starts_with("MANIFEST-") ||
        name == SealFile::kName)
      files.push_back(at->path());
  }
  if (code) return failure(name_of(directory) + " cannot be read: " + code.message());
  return files;
}

// Checks the file CURRENT, which names the newest file MANIFEST.
Status check_current(const fs::path& directory) {
  std::error_code code;
  if (!fs::exists(directory, code)) return {};
  const fs::path current = directory / "CURRENT";
  if (!fs::exists(current, code)) {
    const auto files = files_with_content(directory);
    if (!files) return files.error();
    // Nothing of a database is there, so RocksDB may create a new one.
    if (files->empty()) return {};
    return damaged(directory,
                   "it has " + files->front().filename().string() + ", but no file CURRENT");
  }
  std::ifstream in(current);
  std::string manifest;
  if (!std::getline(in, manifest))
    return damaged(directory, current.string() + " is empty, or cannot be read");
  // CURRENT could be damaged or made by hand. A name with '/' would lead RocksDB out of the
  // directory.
  if (!manifest.starts_with("MANIFEST-") || manifest.find('/') != std::string::npos ||
      manifest.find('\0') != std::string::npos)
    return damaged(directory, current.string() + " does not name a file MANIFEST");
  if (!fs::is_regular_file(directory / manifest, code))
    return damaged(directory, (directory / manifest).string() + " is missing");
  return {};
}

// Locks the database against other processes during its lifetime.
class DirectoryLock {
 public:
  static Result<std::unique_ptr<DirectoryLock>> take(const fs::path& directory) {
    rocksdb::FileLock* lock = nullptr;
    const rocksdb::Status status =
        rocksdb::Env::Default()->LockFile((directory / "LOCK").string(), &lock);
    if (!status.ok()) return open_error(directory, status);
    return std::unique_ptr<DirectoryLock>(new DirectoryLock(lock));
  }
  ~DirectoryLock() { (void)rocksdb::Env::Default()->UnlockFile(lock_); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(rocksdb::FileLock* lock) : lock_(lock) {}
  rocksdb::FileLock* lock_;
};

Status read_everything(rocksdb::DB& db) {
  rocksdb::ReadOptions once;
  // Every block is read once. In the cache it would only take memory.
  once.fill_cache = false;
  // VerifyChecksum covers the blocks of the tables. The walk below also reads the pairs that only
  // the write-ahead log contains.
  if (const rocksdb::Status whole = db.VerifyChecksum(once); !whole.ok())
    return failure(whole.ToString());
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(once));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
  }
  if (!at->status().ok()) return failure(at->status().ToString());
  return {};
}

// Changes are numbered. The seal contains the number of a change that must exist.
Status check_seal(const fs::path& directory, std::uint64_t newest) {
  const auto sealed = SealFile::read(directory);
  if (!sealed) return damaged(directory, sealed.error().message);
  if (newest >= *sealed) return {};
  return damaged(directory, "its newest change is number " + std::to_string(newest) + ", but " +
                                (directory / SealFile::kName).string() + " knows of " +
                                std::to_string(*sealed) +
                                ": its write-ahead log (.log) was cut or is missing");
}

// Names the damaged tables, because RocksDB does not always name the file of a table that does not
// match its manifest.
std::string damaged_tables(const fs::path& directory) {
  std::string text;
  std::error_code code;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    if (at->path().extension() != ".sst") continue;
    rocksdb::SstFileReader reader(database_options());
    const rocksdb::Status opened = reader.Open(at->path().string());
    if (opened.ok() && reader.VerifyChecksum().ok()) continue;
    text += "; " + at->path().string() + " is damaged";
  }
  return text.empty()
             ? "; the tables (.sst) in it are undamaged, so one is missing or belongs to another "
               "database, or MANIFEST or CURRENT is damaged"
             : text;
}

}  // namespace

void Complaints::Logv(const char* format, va_list arguments) {
  char line[1024];
  std::vsnprintf(line, sizeof line, format, arguments);
  // RocksDB says "dropping" when it leaves out a damaged part of the log. All other messages are
  // information for people.
  if (std::string(line).find("dropping") == std::string::npos) return;
  const std::lock_guard lock(mutex_);
  lines_.push_back(line);
}

std::vector<std::string> Complaints::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

namespace {

// RocksDB's own log file ends the process, by an assertion of the library, at the second line that
// a full disk does not accept. Errors are reported by the status of each call instead.
class NoLog final : public rocksdb::Logger {
 public:
  NoLog() : rocksdb::Logger(rocksdb::InfoLogLevel::FATAL_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

rocksdb::Options database_options() {
  rocksdb::Options options;
  options.info_log = std::make_shared<NoLog>();
  options.create_if_missing = true;
  // Damage that RocksDB finds is an error and is not passed over.
  options.paranoid_checks = true;
  // The default mode silently ignores everything after a damaged entry of the log.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  return options;
}

Error open_error(const fs::path& directory, const rocksdb::Status& status) {
  if (says_locked(status))
    return refused(name_of(directory) +
                   " is in use by another easyscaled: allowed is one at a time");
  std::string text = status.ToString();
  // RocksDB looks for a table under an older name last, and its message contains that name.
  for (std::size_t at = 0; (at = text.find(".ldb:", at)) != std::string::npos;)
    text.replace(at, 4, ".sst");
  if (status.IsCorruption() || text.find("No such file or directory") != std::string::npos)
    return damaged(directory, text + damaged_tables(directory));
  return failure(name_of(directory) + " cannot be opened: " + text);
}

Status check_directory(const fs::path& directory) {
  ES_RETURN_IF_ERROR(check_place(directory));
  ES_RETURN_IF_ERROR(check_current(directory));
  std::error_code code;
  if (!fs::exists(directory / "CURRENT", code)) return {};
  // The lock keeps other processes from changing the database while it is read. RocksDB does not
  // lock a database that it opens read-only.
  const auto lock = DirectoryLock::take(directory);
  if (!lock) return lock.error();
  rocksdb::Options options = database_options();
  const auto complaints = std::make_shared<Complaints>();
  options.create_if_missing = false;
  options.info_log = complaints;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, directory.string(), &opened);
  const std::unique_ptr<rocksdb::DB> db(opened);
  if (!status.ok()) {
    Error error = open_error(directory, status);
    // The status often says "Corruption" only. The messages name the file and the position.
    for (const std::string& line : complaints->lines()) error.message += "; " + line;
    return error;
  }
  if (const Status read = read_everything(*db); !read.ok())
    return damaged(directory, read.error().message);
  return check_seal(directory, db->GetLatestSequenceNumber());
}

fs::path original_during_recovery(const fs::path& directory) {
  return directory.string() + ".original";
}

Status try_to_write(const fs::path& directory) {
  const fs::path path = directory / kProbeName;
  // O_TRUNC, because a crash may have left the file.
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return system_failure(path, "be made", errno);
  const std::vector<char> bytes(kProbeBytes, 'e');
  const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
  // A write of a part, without an error, means that the disk is full.
  int code = written == static_cast<ssize_t>(bytes.size()) ? 0 : written < 0 ? errno : ENOSPC;
  // File systems with delayed allocation find only here that there is no room.
  if (code == 0 && ::fsync(descriptor) != 0) code = errno;
  ::close(descriptor);
  ::unlink(path.c_str());
  if (code != 0) return system_failure(path, "be written", code);
  return {};
}

}  // namespace es::store
