#include "actors/esctl/client/place_checks.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "actors/base/gateway/core/endpoint.h"
#include "actors/base/gateway/shell/keys.h"
#include "proto/base/file_descriptor.h"
#include "proto/base/text_file.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;
using Verdict = Finding::Verdict;

Error of_errno(const std::string& what) {
  return failure(what + ": " + std::strerror(errno));
}

// --- directories

// The directory of one trial, which is removed with what is in it.
struct Trial {
  explicit Trial(fs::path where) : path(std::move(where)) {}
  ~Trial() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  fs::path path;
};

Status sync_directory(const fs::path& directory) {
  const FileDescriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return of_errno("the directory cannot be opened");
  if (::fsync(opened.get()) != 0) return of_errno("fsync of a directory");
  return {};
}

Status write_synced(const fs::path& file, const std::string& text) {
  const FileDescriptor opened(::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (opened.get() < 0) return of_errno("a file cannot be made");
  if (::write(opened.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return of_errno("a file cannot be written");
  if (::fsync(opened.get()) != 0) return of_errno("fsync of a file");
  return {};
}

// What a checkpoint and a journal need: a directory that gets its name when its content is on the
// disk.
Status try_directory(const fs::path& directory) {
  const std::string text = "esctl doctor";
  const std::string name = ".esctl-doctor-" + std::to_string(::getpid());
  const Trial unfinished(directory / (name + ".unfinished")), finished(directory / name);
  if (::mkdir(unfinished.path.c_str(), 0700) != 0) return of_errno("a directory cannot be made");
  ES_RETURN_IF_ERROR(write_synced(unfinished.path / "file", text));
  ES_RETURN_IF_ERROR(sync_directory(unfinished.path));
  if (::rename(unfinished.path.c_str(), finished.path.c_str()) != 0)
    return of_errno("a directory cannot be renamed");
  ES_RETURN_IF_ERROR(sync_directory(directory));
  const auto back = read_text_file(finished.path / "file", text.size());
  if (!back) return back.error();
  if (*back != text) return failure("a file has another content than was written");
  return {};
}

// A remark about the file system; empty: none.
std::string remark_on_file_system(const fs::path& directory) {
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6, kNfs = 0x6969;
  struct statfs there {};
  if (::statfs(directory.c_str(), &there) != 0) return {};
  const auto type = static_cast<long>(there.f_type);
  if (type == kTmpfs || type == kRamfs)
    return "It is in memory (tmpfs), so its content is lost when the machine restarts.";
  if (type == kNfs)
    return "It is on NFS: mount it without `async` on the server, which acknowledges what is not "
           "on a disk.";
  return {};
}

Finding space_finding(const fs::path& directory, const std::string& name) {
  constexpr std::uint64_t kLittle = 1ull << 30;
  struct statvfs there {};
  if (::statvfs(directory.c_str(), &there) != 0)
    return {Verdict::kWarning, "directory", name + ": its free space is not known."};
  const std::uint64_t free = std::uint64_t(there.f_bavail) * there.f_frsize;
  const bool little = free < kLittle;
  return {little ? Verdict::kWarning : Verdict::kFine, "directory",
          name + " has " + std::to_string(free >> 20) + " MiB free.",
          little ? "Make room: a checkpoint has 4 bytes for each parameter and each element of the "
                   "optimizer, and a head cannot start on a full disk."
                 : ""};
}

// --- keys

Finding mode_finding(const fs::path& path, bool has_secrets) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0)
    return {Verdict::kWrong, "keys", path.string() + ": " + std::strerror(errno) + ".",
            "esctl keygen " + path.string() + " makes a directory of keys."};
  const bool open = (there.st_mode & 077) != 0;
  if (has_secrets && open)
    return {Verdict::kWrong, "keys", "Other users may read " + path.string() + ".",
            "chmod go= " + path.string()};
  if (there.st_uid != ::geteuid() && ::geteuid() != 0)
    return {Verdict::kWarning, "keys", path.string() + " belongs to another user.",
            "Give the keys to the user of the daemon."};
  return {Verdict::kFine, "keys", path.string() + " has good permissions."};
}

// --- ports

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) return failure(host + ": " + ::gai_strerror(code));
  return Addresses(found, &::freeaddrinfo);
}

Status try_to_listen(const std::string& host, const std::string& port) {
  const auto addresses = resolve(host, port);
  if (!addresses) return addresses.error();
  const addrinfo& address = **addresses;
  const FileDescriptor made(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
  if (made.get() < 0) return of_errno("no socket can be made");
  const int yes = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(made.get(), address.ai_addr, address.ai_addrlen) != 0) return of_errno(host);
  if (::listen(made.get(), 1) != 0) return of_errno(host);
  return {};
}

}  // namespace

Findings check_directory(const fs::path& directory, const std::string& what, bool may_be_missing) {
  const std::string name = what + " " + directory.string();
  std::error_code code;
  if (!fs::exists(directory, code) && may_be_missing)
    return {{Verdict::kFine, "directory", name + " does not exist yet; the head makes it."}};
  if (!fs::is_directory(directory, code))
    return {{Verdict::kWrong, "directory", name + " is not a directory.",
             "mkdir -p -m 700 " + directory.string()}};
  if (const Status tried = try_directory(directory); !tried.ok())
    return {{Verdict::kWrong, "directory",
             name + " cannot keep checkpoints or a journal: " + tried.error().message + ".",
             "Give the directory to the user of the daemon, or choose one on a file system with "
             "fsync and atomic renames."}};
  Findings found{{Verdict::kFine, "directory",
                  name + ": files are written, synchronised, renamed and read back."}};
  if (const std::string remark = remark_on_file_system(directory); !remark.empty())
    found.push_back({Verdict::kWarning, "directory", name + ": " + remark});
  found.push_back(space_finding(directory, name));
  return found;
}

Findings check_keys(const fs::path& directory) {
  Findings found{mode_finding(directory, true)};
  std::error_code ignored;
  for (const char* name : {"client.key", "node.key", "server.key"})
    if (fs::exists(directory / name, ignored))
      found.push_back(mode_finding(directory / name, true));
  // A file that other users may read is refused below for the same reason.
  if (something_is_wrong(found)) return found;
  const auto keys = read_cluster_keys(directory);
  if (!keys) {
    found.push_back({Verdict::kWrong, "keys", keys.error().message + ".",
                     "See docs/OPERATIONS.md, Keys, for what each machine needs."});
    return found;
  }
  if (!keys->server)
    found.push_back({Verdict::kFine, "keys",
                     "There is no server.key: this machine can have clients, and no node."});
  found.push_back({Verdict::kFine, "keys",
                   "Peers with " + std::to_string(keys->authorized.size()) +
                       " authorized keys may connect to daemons with this directory."});
  return found;
}

Findings check_port(const std::string& endpoint) {
  const auto parsed = parse_endpoint(endpoint);
  if (!parsed) return {{Verdict::kWrong, "port", parsed.error().message + ".", ""}};
  if (parsed->kind == Endpoint::Kind::kIpc)
    return check_directory(fs::path(parsed->path).parent_path(), "the directory of the socket",
                           true);
  const std::string port = endpoint.substr(endpoint.rfind(':') + 1);
  std::string host = parsed->host;
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  const Status tried = try_to_listen(host, port == "*" ? "0" : port);
  if (!tried.ok())
    return {{Verdict::kWrong, "port",
             "A daemon cannot listen at " + endpoint + ": " + tried.error().message + ".",
             "Choose a free port above 1023 and an address of this machine (ip addr); `ss -ltnp` "
             "shows which process has the port."}};
  return {{Verdict::kFine, "port", "A daemon can listen at " + endpoint + "."}};
}

}  // namespace es::actors::esctl
