#include "actors/base/gateway/core/endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace es::actors {
namespace {

constexpr std::string_view kIpcPrefix = "ipc://";
constexpr std::string_view kTcpPrefix = "tcp://";

Error bad_endpoint(const std::string& text, const std::string& why) {
  return usage_error("endpoint \"" + text + "\": " + why +
                     "; allowed are ipc:///PATH and tcp://HOST:PORT");
}

bool is_port(std::string_view port) {
  if (port == "*") return true;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
  return error == std::errc() && end == port.data() + port.size() && value >= 1 && value <= 65535;
}

Result<Endpoint> parse_ipc(const std::string& text) {
  const std::string path = text.substr(kIpcPrefix.size());
  if (path.empty() || path[0] != '/') return bad_endpoint(text, "the path is not absolute");
  if (path.back() == '/') return bad_endpoint(text, "the path names no file");
  // The path ends with a zero byte in the address.
  const std::size_t bytes_max = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > bytes_max)
    return bad_endpoint(text, "the path has " + std::to_string(path.size()) +
                                  " bytes, the system allows " + std::to_string(bytes_max));
  return Endpoint{.kind = Endpoint::Kind::kIpc, .text = text, .path = path, .host = {}};
}

Result<Endpoint> parse_tcp(const std::string& text) {
  const std::string rest = text.substr(kTcpPrefix.size());
  // The last colon precedes the port, because an IPv6 address contains colons itself.
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string::npos || !is_port(std::string_view(rest).substr(colon + 1)))
    return bad_endpoint(text, "the port is not * or a number from 1 to 65535");
  const std::string host = rest.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (host.empty() || (!bracketed && host.find(':') != std::string::npos))
    return bad_endpoint(text, "the host is missing, or an IPv6 address without brackets");
  return Endpoint{.kind = Endpoint::Kind::kTcp, .text = text, .path = {}, .host = host};
}

bool a_process_listens(const std::string& path) {
  // Non-blocking, because connect() would wait as long as a stopped process accepts nothing and its
  // queue of connections is full. Then it fails with EAGAIN, and the process listens all the same.
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const bool listens =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN;
  ::close(fd);
  return listens;
}

bool is_ipv4_loopback(const std::string& host) {
  return host.starts_with("127.") && std::count(host.begin(), host.end(), '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

bool Endpoint::is_loopback() const {
  return kind == Kind::kTcp && (is_ipv4_loopback(host) || host == "[::1]" || host == "localhost");
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return c < '!' || c > '~'; }))
    return bad_endpoint(text, "it holds a space or an unprintable character");
  if (text.starts_with(kIpcPrefix)) return parse_ipc(text);
  if (text.starts_with(kTcpPrefix)) return parse_tcp(text);
  return bad_endpoint(text, "unknown transport");
}

Status check_security(const Endpoint& endpoint, bool has_keys, bool insecure_loopback) {
  if (endpoint.kind == Endpoint::Kind::kIpc || has_keys) return {};
  if (endpoint.is_loopback() && insecure_loopback) return {};
  return refused("endpoint \"" + endpoint.text +
                 "\": TCP needs keys; make them with `esctl keygen` and name their directory in "
                 "the configuration, or listen on ipc:///PATH" +
                 (endpoint.is_loopback() ? ", or allow insecure_loopback" : ""));
}

Status prepare_ipc(const Endpoint& endpoint) {
  const std::string directory = std::filesystem::path(endpoint.path).parent_path().string();
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return failure("directory " + directory + " of " + endpoint.text + ": " + std::strerror(errno));
  struct stat info {};
  // The directory may have existed before, with another owner or mode than mkdir() would give it.
  if (::stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return failure(directory + " (of " + endpoint.text + ") is not a directory");
  // A socket without keys relies on the permissions of its directory. No other user may be able to
  // connect, or to replace the socket.
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return refused("directory " + directory + " of " + endpoint.text +
                   ": other users may enter it; it must belong to this user and have mode 0700");
  // When ZeroMQ binds, it removes what is there, as it must for the socket of an earlier process.
  // Any other kind of file has to be protected from this.
  if (::lstat(endpoint.path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode))
    return refused("endpoint " + endpoint.text +
                   ": there is a file that is no socket; allowed is a new path");
  // Binding would take the path away from a running process, which would then be unreachable
  // without noticing it.
  if (a_process_listens(endpoint.path))
    return refused("endpoint " + endpoint.text + ": another process already listens there");
  return {};
}

}  // namespace es::actors
