#include "store/byte_source.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "store/path_roots.h"

namespace es::store {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // this value makes zlib expect the gzip wrapper
constexpr std::size_t kInflateStepMax = std::size_t{1} << 30;  // zlib counts in 32 bits

std::string reason(int code) {
  return std::generic_category().message(code);
}

}  // namespace

struct ByteSource::State {
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string name;
  std::unique_ptr<std::FILE, CloseFile> file;
  bool compressed = false;
  bool finished = false;  // the gzip stream has ended with a valid checksum
  z_stream zlib{};
  std::array<std::uint8_t, 64 * 1024> input;

  ~State() {
    if (compressed) inflateEnd(&zlib);
  }

  Error damaged(const std::string& what) const {
    return usage_error(name + ": compressed data " + what +
                       ": allowed is one complete gzip stream");
  }

  Result<std::size_t> read_plain(std::span<std::uint8_t> out) {
    const std::size_t got = std::fread(out.data(), 1, out.size(), file.get());
    if (got < out.size() && std::ferror(file.get()) != 0)
      return failure(name + ": cannot be read: " + reason(errno));
    return got;
  }

  // Provides input to zlib. Returns false at the end of the file.
  Result<bool> refill() {
    if (zlib.avail_in != 0) return true;
    const Result<std::size_t> got = read_plain(input);
    if (!got) return got.error();
    zlib.next_in = input.data();
    zlib.avail_in = static_cast<uInt>(*got);
    return *got != 0;
  }

  // Calls inflate once, with at most `out` as output. Returns the number of bytes produced.
  Result<std::size_t> inflate_some(std::span<std::uint8_t> out) {
    const Result<bool> more = refill();
    if (!more) return more.error();
    if (!*more) return damaged("is cut short");
    const std::size_t wanted = std::min(out.size(), kInflateStepMax);
    zlib.next_out = out.data();
    zlib.avail_out = static_cast<uInt>(wanted);
    const int code = inflate(&zlib, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END)
      return damaged(zlib.msg != nullptr ? "is damaged (" + std::string(zlib.msg) + ")"
                                         : "is damaged");
    // zlib has compared the checksum and the length at the end of the stream.
    if (code == Z_STREAM_END) {
      finished = true;
      const Result<bool> rest = refill();
      if (!rest) return rest.error();
      if (*rest) return damaged("is followed by other bytes");
    }
    return wanted - zlib.avail_out;
  }

  Result<std::size_t> read_compressed(std::span<std::uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size() && !finished) {
      const Result<std::size_t> made = inflate_some(out.subspan(done));
      if (!made) return made.error();
      done += *made;
    }
    return done;
  }
};

ByteSource::ByteSource(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteSource::~ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;

Result<ByteSource> ByteSource::open(const std::filesystem::path& file, const std::string& where) {
  auto state = std::make_unique<State>();
  state->name = where.empty() ? file.string() : where;
  struct stat info {};
  // Before the file is opened, because opening a pipe without a writer would wait for ever.
  if (::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return failure(state->name + ": cannot be read: it is no regular file");
  state->file.reset(std::fopen(file.c_str(), "rb"));
  const int code = errno;
  ES_RETURN_IF_ERROR(
      check_opened(RootKind::kData, file, state->file ? ::fileno(state->file.get()) : -1));
  if (state->file == nullptr) {
    const std::string message = state->name + ": cannot be opened: " + reason(code);
    return code == ENOENT || code == ENOTDIR ? not_found(message) : failure(message);
  }
  std::array<std::uint8_t, 2> start{};
  const Result<std::size_t> got = state->read_plain(start);
  if (!got) return got.error();
  std::rewind(state->file.get());
  // The first two bytes of every gzip file. The name of the file does not decide.
  if (*got == 2 && start[0] == 0x1f && start[1] == 0x8b) {
    if (inflateInit2(&state->zlib, kGzipWindowBits) != Z_OK)
      return failure(state->name + ": zlib cannot be started");
    state->compressed = true;
  }
  return ByteSource(std::move(state));
}

Result<std::size_t> ByteSource::read(std::span<std::uint8_t> out) {
  return state_->compressed ? state_->read_compressed(out) : state_->read_plain(out);
}

std::optional<std::uint64_t> ByteSource::plain_bytes() const {
  struct stat info {};
  const bool known = !state_->compressed && ::fstat(::fileno(state_->file.get()), &info) == 0 &&
                     S_ISREG(info.st_mode);
  return known ? std::optional(static_cast<std::uint64_t>(info.st_size)) : std::nullopt;
}

std::optional<std::uint32_t> ByteSource::promised_bytes() const {
  const int file = ::fileno(state_->file.get());
  struct stat info {};
  std::array<std::uint8_t, 4> end{};
  const bool known = state_->compressed && ::fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
                     ::pread(file, end.data(), end.size(), info.st_size - 4) == 4;
  if (!known) return std::nullopt;
  // The last four bytes of a gzip file: the size of the data modulo 2^32, little endian.
  return end[0] | std::uint32_t{end[1]} << 8 | std::uint32_t{end[2]} << 16 |
         std::uint32_t{end[3]} << 24;
}

}  // namespace es::store
