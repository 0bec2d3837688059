#include "actors/base/gateway/core/endpoint.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/actors/base/gateway/shell/station.h"

namespace es::actors {
namespace {

Endpoint parsed(const std::string& text) {
  const Result<Endpoint> endpoint = parse_endpoint(text);
  REQUIRE_MESSAGE(endpoint.ok(), text);
  return *endpoint;
}

struct LocalSocket {
  explicit LocalSocket(const Endpoint& endpoint) {
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, endpoint.path.c_str(), endpoint.path.size() + 1);
  }
  LocalSocket(const LocalSocket&) = delete;
  LocalSocket& operator=(const LocalSocket&) = delete;
  ~LocalSocket() { ::close(fd); }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&name); }

  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un name{};
};

TEST_SUITE("actors/base/gateway/endpoint") {
  TEST_CASE("endpoints of both transports are read") {
    CHECK(parsed("ipc:///run/es/head.sock").path == "/run/es/head.sock");
    CHECK(parsed("tcp://node-1.example:7000").host == "node-1.example");
    CHECK(parsed("tcp://[::1]:7000").host == "[::1]");
    CHECK(parsed("tcp://127.0.0.1:*").kind == Endpoint::Kind::kTcp);
  }

  TEST_CASE("anything else is a usage error that quotes the text") {
    for (const std::string text :
         {"", "ipc://", "ipc://relative", "ipc://@abstract", "ipc:///dir/", "tcp://", "tcp://host",
          "tcp://host:", "tcp://host:0", "tcp://host:65536", "tcp://host:7x", "tcp://:7000",
          "tcp://::1:7000", "udp://host:1", "inproc://x", "ipc:///a b", "ipc:///new\nline"}) {
      const Result<Endpoint> endpoint = parse_endpoint(text);
      REQUIRE_MESSAGE(!endpoint.ok(), text);
      CHECK(endpoint.error().kind == ErrorKind::kUsage);
      CHECK(endpoint.error().message.find(text) != std::string::npos);
    }
    CHECK_FALSE(parse_endpoint("ipc:///" + std::string(200, 'x')).ok());
  }

  TEST_CASE("only loopback addresses are loopback") {
    for (const char* text :
         {"tcp://127.0.0.1:1", "tcp://127.8.9.10:1", "tcp://localhost:1", "tcp://[::1]:1"})
      CHECK_MESSAGE(parsed(text).is_loopback(), text);
    for (const char* text : {"tcp://0.0.0.0:1", "tcp://*:1", "tcp://127.0.0.1.evil.example:1",
                             "tcp://127.evil.a.b:1", "tcp://10.0.0.1:1", "ipc:///x"})
      CHECK_MESSAGE(!parsed(text).is_loopback(), text);
  }

  TEST_CASE("tcp requires keys, and only a loopback address may be used without them") {
    CHECK(check_security(parsed("ipc:///x"), false, false).ok());
    CHECK(check_security(parsed("tcp://10.0.0.1:1"), true, false).ok());
    CHECK(check_security(parsed("tcp://127.0.0.1:1"), false, true).ok());
    CHECK_FALSE(check_security(parsed("tcp://127.0.0.1:1"), false, false).ok());
    const Status status = check_security(parsed("tcp://10.0.0.1:1"), false, true);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::kRefused);
    CHECK(status.error().message.find("esctl keygen") != std::string::npos);
  }

  TEST_CASE("the directory of an ipc endpoint is created with access for its owner only") {
    const test::TempDirectory dir;
    const Endpoint endpoint = parsed(dir.ipc("new/head.sock"));
    REQUIRE(prepare_ipc(endpoint).ok());
    struct stat info {};
    REQUIRE(::stat((dir.path() / "new").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
    CHECK(prepare_ipc(endpoint).ok());  // The second call finds the directory.
  }

  TEST_CASE("a directory that other users may enter is refused") {
    const test::TempDirectory dir;
    REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
    const Status status = prepare_ipc(parsed(dir.ipc("head.sock")));
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::kRefused);
  }

  TEST_CASE("a file that is no socket is not removed by a process that listens there") {
    const test::TempDirectory dir;
    std::ofstream(dir.path() / "thesis.txt") << "mine";
    const Status status = prepare_ipc(parsed(dir.ipc("thesis.txt")));
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::kRefused);
    CHECK(status.error().message.find("no socket") != std::string::npos);
  }

  TEST_CASE("a socket of a process is refused, also when its queue of connections is full") {
    const test::TempDirectory dir;
    const Endpoint endpoint = parsed(dir.ipc("head.sock"));
    const LocalSocket listener(endpoint);
    REQUIRE(::bind(listener.fd, listener.address(), sizeof listener.name) == 0);
    REQUIRE(prepare_ipc(endpoint).ok());  // A process that has ended leaves its socket like this.
    REQUIRE(::listen(listener.fd, 0) == 0);
    std::vector<std::unique_ptr<LocalSocket>> waiting;  // Nothing accepts these connections.
    int connected = 0;
    while (connected == 0) {
      const Status status = prepare_ipc(endpoint);
      REQUIRE_FALSE(status.ok());
      CHECK(status.error().kind == ErrorKind::kRefused);
      CHECK(status.error().message.find("another process already listens") != std::string::npos);
      waiting.push_back(std::make_unique<LocalSocket>(endpoint));
      connected = ::connect(waiting.back()->fd, listener.address(), sizeof listener.name);
    }
    CHECK(errno == EAGAIN);
    CHECK_FALSE(prepare_ipc(endpoint).ok());
  }

  TEST_CASE("a directory that cannot be created is an error") {
    const test::TempDirectory dir;
    CHECK_FALSE(prepare_ipc(parsed(dir.ipc("missing/deeper/head.sock"))).ok());
  }
}

}  // namespace
}  // namespace es::actors
