#include "actors/base/gateway/shell/endpoint_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace es::actors {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::string_view_literals;

// ZMTP 3 (ZeroMQ RFC 23): signature, version 3.0, mechanism, and zeros up to 64 bytes. A server
// sends the signature at once and the rest after it has seen the version of the client. This
// greeting ends there, because a server with another mechanism would close the connection before it
// names its own.
constexpr std::size_t kSignatureBytes = 10, kMechanismAt = 12, kGreetingBytes = 64;
constexpr std::string_view kOurStart = "\xff\0\0\0\0\0\0\0\1\x7f\3\0"sv;
// Most other servers answer this request, if only with an error.
constexpr std::string_view kOtherGreeting = "GET / HTTP/1.0\r\n\r\n"sv;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

bool wait_for(int fd, short events, Clock::time_point deadline) {
  pollfd item{fd, events, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const int ready = ::poll(&item, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// Receives at most kGreetingBytes, until `wanted` bytes are there, the peer closes the connection,
// or the deadline has passed.
void receive(int fd, std::size_t wanted, Clock::time_point deadline, std::string& text) {
  std::array<char, kGreetingBytes> block;
  while (text.size() < wanted && wait_for(fd, POLLIN, deadline)) {
    const ssize_t got = ::recv(fd, block.data(), wanted - text.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
}

void send(int fd, std::string_view text) {
  // Errors are ignored: if the peer has closed the connection, the receive that follows finds
  // nothing.
  (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool is_signature(std::string_view text) {
  return text.size() >= kSignatureBytes && text[0] == '\xff' && text[9] == '\x7f';
}

Listener listen_to(int fd, std::chrono::milliseconds patience) {
  std::string heard;
  receive(fd, kSignatureBytes, Clock::now() + patience, heard);
  // An EasyScale process sends its signature at once. A process that sends nothing may wait for a
  // request first, as an HTTP server does.
  if (heard.empty()) {
    send(fd, kOtherGreeting);
    receive(fd, kSignatureBytes, Clock::now() + patience, heard);
    return heard.empty() || is_signature(heard) ? Listener::kSilent : Listener::kOther;
  }
  if (!is_signature(heard)) return Listener::kOther;
  send(fd, kOurStart);
  receive(fd, kGreetingBytes, Clock::now() + patience, heard);
  if (heard.size() < kGreetingBytes) return Listener::kSilent;
  return heard.compare(kMechanismAt, 6, "CURVE\0"sv) == 0 ? Listener::kSecure : Listener::kOpen;
}

Listener of_error(int code) {
  switch (code) {
    case ECONNREFUSED:
    case ENOENT:
    case ENOTDIR:
      return Listener::kNone;
    case EACCES:
    case EPERM:
      return Listener::kNoAccess;
    case ETIMEDOUT:
      return Listener::kNoHost;
    default:
      return Listener::kNoRoute;
  }
}

EndpointProbe failed(int code) {
  return {of_error(code), std::strerror(code)};
}

EndpointProbe probe_address(int family, const sockaddr* address, socklen_t bytes,
                            std::chrono::milliseconds patience) {
  const Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return failed(errno);
  if (::connect(socket.fd(), address, bytes) != 0) {
    // For a local socket this error means that a process listens but does not accept.
    if (errno == EAGAIN) return {Listener::kSilent, "its queue of connections is full"};
    if (errno != EINPROGRESS) return failed(errno);
    if (!wait_for(socket.fd(), POLLOUT, Clock::now() + patience)) return {Listener::kNoHost, {}};
    int code = 0;
    socklen_t size = sizeof code;
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) return failed(code);
  }
  return {listen_to(socket.fd(), patience), {}};
}

EndpointProbe probe_ipc(const Endpoint& endpoint, std::chrono::milliseconds patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, endpoint.path.c_str(), endpoint.path.size() + 1);
  return probe_address(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address,
                       patience);
}

EndpointProbe probe_tcp(const Endpoint& endpoint, std::chrono::milliseconds patience) {
  const bool bracketed = endpoint.host.starts_with("[");
  const std::string host =
      bracketed ? endpoint.host.substr(1, endpoint.host.size() - 2) : endpoint.host;
  const std::string port = endpoint.text.substr(endpoint.text.rfind(':') + 1);
  addrinfo hints{};
  hints.ai_family = bracketed ? AF_INET6 : AF_INET;  // the choice that ZeroMQ makes too
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list); code != 0)
    return {Listener::kUnknownHost, ::gai_strerror(code)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  return probe_address(list->ai_family, list->ai_addr, list->ai_addrlen, patience);
}

}  // namespace

EndpointProbe probe_endpoint(const Endpoint& endpoint, std::chrono::milliseconds patience) {
  return endpoint.kind == Endpoint::Kind::kIpc ? probe_ipc(endpoint, patience)
                                               : probe_tcp(endpoint, patience);
}

}  // namespace es::actors
