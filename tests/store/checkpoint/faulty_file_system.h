#pragma once
// A FileSystem over the real one that fails at a chosen operation and records all operations.
#include <string>
#include <utility>
#include <vector>

#include "store/checkpoint/file_system.h"

namespace es::test {

enum class Fault {
  kError,  // One operation fails, as on a full disk: half of its bytes are written.
  kDeath,  // The process dies there: that operation and all later ones do nothing.
};

class FaultyFileSystem : public store::FileSystem {
 public:
  // Operations count from 0. If `fail_at` is beyond the last one, there is no fault.
  FaultyFileSystem(int fail_at, Fault fault) : fail_at_(fail_at), fault_(fault) {}

  // Operations in order, each as "name path" without directories.
  const std::vector<std::string>& log() const { return log_; }

  Result<std::filesystem::path> make_unique_directory(
      const std::filesystem::path& prefix) override {
    if (!step("make_directory", prefix)) return injected();
    return real_.make_unique_directory(prefix);
  }
  Result<std::unique_ptr<store::WritableFile>> create_file(
      const std::filesystem::path& file) override {
    if (!step("create", file)) return injected();
    return faulty(file, real_.create_file(file));
  }
  Result<std::unique_ptr<store::WritableFile>> create_large_file(
      const std::filesystem::path& file) override {
    if (!step("create", file)) return injected();
    return faulty(file, real_.create_large_file(file));
  }
  Status sync_directory(const std::filesystem::path& directory) override {
    if (!step("sync_directory", directory)) return injected();
    return real_.sync_directory(directory);
  }
  Status rename_directory(const std::filesystem::path& from,
                          const std::filesystem::path& to) override {
    if (!step("rename", to)) return injected();
    return real_.rename_directory(from, to);
  }
  Status remove_file(const std::filesystem::path& file) override {
    if (!step("remove", file)) return injected();
    return real_.remove_file(file);
  }
  Status remove_directory(const std::filesystem::path& directory) override {
    if (!step("remove", directory)) return injected();
    return real_.remove_directory(directory);
  }

 private:
  class FaultyFile final : public store::WritableFile {
   public:
    FaultyFile(FaultyFileSystem& owner, std::filesystem::path path,
               std::unique_ptr<store::WritableFile> real)
        : owner_(owner), path_(std::move(path)), real_(std::move(real)) {}

    Status append(std::span<const std::byte> bytes) override {
      if (owner_.step("append", path_)) return real_->append(bytes);
      if (owner_.fault_ == Fault::kError) return partly(bytes);
      return injected();
    }
    Status finish() override {
      if (!owner_.step("finish", path_)) return injected();
      return real_->finish();
    }

   private:
    Status partly(std::span<const std::byte> bytes) {
      const Status status = real_->append(bytes.first(bytes.size() / 2));
      return status.ok() ? Status(injected()) : status;
    }

    FaultyFileSystem& owner_;
    std::filesystem::path path_;
    std::unique_ptr<store::WritableFile> real_;
  };

  Result<std::unique_ptr<store::WritableFile>> faulty(
      const std::filesystem::path& path, Result<std::unique_ptr<store::WritableFile>> real) {
    if (!real) return real;
    return std::unique_ptr<store::WritableFile>(
        std::make_unique<FaultyFile>(*this, path, *std::move(real)));
  }

  static Error injected() { return failure("No space left on device"); }

  // Whether the operation may happen.
  bool step(const char* name, const std::filesystem::path& path) {
    const int number = static_cast<int>(log_.size());
    log_.push_back(std::string(name) + ' ' + path.filename().string());
    return fault_ == Fault::kError ? number != fail_at_ : number < fail_at_;
  }

  store::FileSystem& real_ = store::posix_file_system();
  int fail_at_;
  Fault fault_;
  std::vector<std::string> log_;
};

}  // namespace es::test
