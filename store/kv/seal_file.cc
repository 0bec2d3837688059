#include "store/kv/seal_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

#include "proto/base/digest.h"
#include "store/system_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

// The number has 20 digits, so the line always has the same length and can be replaced in place.
std::string line_of(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  const std::string padded = std::string(20 - digits.size(), '0') + digits;
  return padded + " " + digest_of(std::string_view(padded)).hex() + "\n";
}

}  // namespace

Result<std::uint64_t> SealFile::read(const fs::path& directory) {
  const fs::path path = directory / kName;
  std::error_code code;
  const fs::file_status there = fs::status(path, code);
  if (there.type() == fs::file_type::not_found) return std::uint64_t{0};
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!fs::is_regular_file(there) || !in.is_open() || in.bad())
    return failure(path.string() + ": cannot be read");
  // A crash between the creation of the file and its first write leaves it empty.
  if (text.empty()) return std::uint64_t{0};
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  // The comparison with the whole line covers the digits, the digest, the length and anything
  // behind it. A text without a number gives 0, whose line differs.
  if (text != line_of(number)) return failure(path.string() + " is damaged");
  return number;
}

Result<SealFile> SealFile::open(const fs::path& directory) {
  fs::path path = directory / kName;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return system_failure(path, "be opened", errno);
  return SealFile(descriptor, std::move(path));
}

SealFile::SealFile(int descriptor, fs::path path)
    : descriptor_(descriptor), path_(std::move(path)) {}

SealFile::SealFile(SealFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

SealFile& SealFile::operator=(SealFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

SealFile::~SealFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status SealFile::write(std::uint64_t number) {
  const std::string line = line_of(number);
  // The 54 bytes at the beginning of the file are within one sector of the disk, which is written
  // as a whole, so a power cut leaves the old line or the new one.
  const ssize_t written = ::pwrite(descriptor_, line.data(), line.size(), 0);
  if (written != static_cast<ssize_t>(line.size()))
    return system_failure(path_, "be written", written < 0 ? errno : ENOSPC);
  // The size of the file changes with the first write only, and fdatasync() covers that change. The
  // times of the file do not matter.
  if (::fdatasync(descriptor_) != 0) return system_failure(path_, "be written", errno);
  return {};
}

}  // namespace es::store
