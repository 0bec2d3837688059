#include "actors/service/shell/token_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>

#include "proto/base/file_descriptor.h"
#include "proto/base/private_file.h"
#include "proto/base/text_file.h"
#include "store/directory_sync.h"
#include "store/system_error.h"

namespace es::actors::http {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;

Status write_all(const std::filesystem::path& file, const std::string& text) {
  const FileDescriptor out(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (out.get() < 0) return store::system_failure(file, "be written", errno);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t bytes = ::write(out.get(), text.data() + done, text.size() - done);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return store::system_failure(file, "be written", errno);
    done += static_cast<std::size_t>(bytes);
  }
  if (::fsync(out.get()) != 0) return store::system_failure(file, "be written", errno);
  return {};
}

}  // namespace

Result<std::vector<Token>> read_tokens(const std::filesystem::path& file) {
  // A user who may change the file may make tokens.
  if (const Status own = check_own_file(file, "token file");
      !own.ok() && own.error().kind != ErrorKind::kNotFound)
    return own.error();
  const auto text = read_text_file(file, kFileBytesMax);
  if (!text) return text.error();
  return parse_tokens(*text, file.string());
}

Status change_tokens(const std::filesystem::path& file,
                     const std::function<Status(std::vector<Token>&)>& change) {
  const std::filesystem::path directory = store::parent_directory(file);
  const FileDescriptor lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() < 0) return store::open_failure(directory, errno);
  // The kernel releases the lock when the descriptor is closed, also if the process dies.
  while (::flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) return store::system_failure(directory, "be locked", errno);
  auto tokens = read_tokens(file);
  if (!tokens && tokens.error().kind != ErrorKind::kNotFound) return tokens.error();
  std::vector<Token> changed = tokens ? *std::move(tokens) : std::vector<Token>();
  ES_RETURN_IF_ERROR(change(changed));
  const std::filesystem::path next = file.string() + ".new";
  ES_RETURN_IF_ERROR(write_all(next, tokens_text(changed)));
  if (::rename(next.c_str(), file.c_str()) != 0) {
    const Error error = store::system_failure(file, "be replaced", errno);
    ::unlink(next.c_str());
    return error;
  }
  return store::sync_entries(directory);
}

std::string new_token() {
  std::random_device random;
  static constexpr char kHex[] = "0123456789abcdef";
  constexpr int kDigits = 64;
  std::string token;
  for (int i = 0; i < kDigits; ++i) token += kHex[random() % 16];
  return token;
}

}  // namespace es::actors::http
