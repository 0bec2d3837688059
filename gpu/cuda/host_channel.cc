// Channels between the host memories of processes of one machine. Each is a socket without a name
// in the file system.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "gpu/cuda/channel.h"

namespace es::gpu::cuda {
namespace {

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket() { reset(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    reset(std::exchange(other.fd_, -1));
    return *this;
  }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

Error failed(const char* call) {
  return failure(std::string("channel: ") + call + ": " + std::strerror(errno));
}

// The address is in the abstract name space, so it vanishes with its last socket.
socklen_t address_of(const std::string& id, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  // The first byte of the path stays 0, which selects the abstract name space.
  std::memcpy(address.sun_path + 1, id.data(), std::min(id.size(), sizeof(address.sun_path) - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + id.size());
}

class HostChannel final : public Channel {
 public:
  explicit HostChannel(ChannelEnd end) : end_(end) {}

  Status open(const std::string& id) {
    sockaddr_un address{};
    const socklen_t size = address_of(id, address);
    Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.open()) return failed("socket");
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    if (end_ == ChannelEnd::kReceiver) {
      // The sender has created the id and listens before the receiver gets it, so the connection
      // succeeds at once.
      if (::connect(socket.get(), to, size) != 0) return failed("connect");
      peer_ = std::move(socket);
      return {};
    }
    if (::bind(socket.get(), to, size) != 0) return failed("bind");
    if (::listen(socket.get(), 1) != 0) return failed("listen");
    listening_ = std::move(socket);
    return {};
  }

  Result<State> poll() override {
    // The sender waits for the connection in poll() and never in open(), because no call may wait
    // for the peer.
    if (!peer_.open()) ES_RETURN_IF_ERROR(accept());
    if (!peer_.open()) return State::kOpening;
    if (left_ != 0) {
      ES_RETURN_IF_ERROR(move());
      return left_ == 0 ? State::kIdle : State::kBusy;
    }
    // An idle channel is examined too, so that the end of the peer is noticed before the next
    // transfer.
    if (peer_left()) return failure("channel: the other end is gone");
    return State::kIdle;
  }

  void begin(Stream, void* memory, std::size_t bytes) override {
    next_ = static_cast<std::byte*>(memory);
    left_ = bytes;
  }

  void abort() override {
    peer_.reset();
    listening_.reset();
  }
  // No call of this class works in the background, so nothing uses the memory after abort().
  bool released() const override { return true; }

 private:
  Status accept() {
    if (!listening_.open()) return failure("channel: it was given up");
    peer_.reset(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (peer_.open())
      listening_.reset();
    else if (errno != EAGAIN && errno != EINTR)
      return failed("accept");
    return {};
  }

  Status move() {
    while (left_ != 0) {
      const bool sends = end_ == ChannelEnd::kSender;
      // MSG_NOSIGNAL: without it, a send to a closed socket would end the process by SIGPIPE.
      const ssize_t moved = sends ? ::send(peer_.get(), next_, left_, MSG_NOSIGNAL)
                                  : ::recv(peer_.get(), next_, left_, 0);
      if (moved == 0) return failure("channel: the other end is gone");
      if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return {};
      if (moved < 0) return failed(sends ? "send" : "recv");
      next_ += moved;
      left_ -= static_cast<std::size_t>(moved);
    }
    return {};
  }

  // Returns whether the peer has closed the socket. Data that it sent before must still be
  // received, so data in the socket means that the peer has not left.
  bool peer_left() const {
    pollfd look{peer_.get(), POLLIN, 0};
    if (::poll(&look, 1, 0) <= 0) return false;
    std::byte byte{};
    return ::recv(peer_.get(), &byte, 1, MSG_PEEK) == 0 || (look.revents & POLLERR) != 0;
  }

  ChannelEnd end_;
  Socket listening_, peer_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

class HostChannels final : public ChannelLibrary {
 public:
  HostChannels(std::string device, const std::string& host)
      : kind_("memory of " + host), device_(std::move(device)) {}

  std::string kind() const override { return kind_; }
  std::string device() const override { return device_; }
  std::size_t channels_max() const override { return kChannelsMax; }
  Result<std::string> make_id() override {
    std::random_device random;
    std::string id = "es-channel";
    for (int i = 0; i < 4; ++i) id += "-" + std::to_string(random());
    return id;
  }
  Result<std::unique_ptr<Channel>> open(ChannelEnd end, const std::string& id) override {
    if (id.empty() || id.size() > sizeof(sockaddr_un::sun_path) - 1)
      return failure("channel: an id of " + std::to_string(id.size()) + " bytes");
    auto channel = std::make_unique<HostChannel>(end);
    ES_RETURN_IF_ERROR(channel->open(id));
    return std::unique_ptr<Channel>(std::move(channel));
  }

 private:
  std::string kind_, device_;
};

}  // namespace

std::size_t channels_each_way(int multiprocessors) {
  // All channels together may occupy half of the multiprocessors, and half of these in each
  // direction.
  const int each_way = multiprocessors / 2 / kTransferBlocks / 2;
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(each_way, 1)), 1, kChannelsMax);
}

std::unique_ptr<ChannelLibrary> open_host_channels(std::string device, const std::string& host) {
  return std::make_unique<HostChannels>(std::move(device), host);
}

}  // namespace es::gpu::cuda
