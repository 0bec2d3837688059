#include "proto/http/http_client.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

using namespace es;

namespace {

// A service that answers every request with the same lines and closes the connection.
class LineService {
 public:
  explicit LineService(std::string body)
      : body_(std::move(body)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener_, generic, size) == 0);
    REQUIRE(::listen(listener_, 8) == 0);
    REQUIRE(::getsockname(listener_, generic, &size) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~LineService() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  const std::string& url() const { return url_; }

 private:
  void run() const {
    for (int peer; (peer = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(peer)) {
      std::string request;
      for (char byte; !request.ends_with("\r\n\r\n") && ::recv(peer, &byte, 1, 0) == 1;)
        request += byte;
      const std::string answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body_;
      ::send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  const std::string body_;
  const int listener_;
  std::string url_;
  std::thread thread_;
};

}  // namespace

TEST_SUITE("proto/http/http_client") {
  TEST_CASE("a stream gives whole lines, and the begin of one is not lost") {
    const LineService service("one\n\ntwo\nthree");
    HttpClient client(service.url(), {});
    const std::atomic<bool> stop{false};
    std::vector<std::string> lines;
    const auto answer =
        client.stream("/watch", 60, stop, [&](std::string_view line) { lines.emplace_back(line); });
    REQUIRE_MESSAGE(answer.ok(), answer.error().message);
    CHECK(lines == std::vector<std::string>{"one", "", "two"});
    CHECK(answer->body == "three");
  }

  TEST_CASE("an exception for a line reaches the caller, and the client works on") {
    const LineService service("one\ntwo\n");
    HttpClient client(service.url(), {});
    const std::atomic<bool> stop{false};
    const auto refuse = [](std::string_view line) { throw std::runtime_error(std::string(line)); };
    CHECK_THROWS_WITH(static_cast<void>(client.stream("/watch", 60, stop, refuse)), "one");
    const auto answer = client.get("/");
    REQUIRE_MESSAGE(answer.ok(), answer.error().message);
    CHECK(answer->body == "one\ntwo\n");
  }
}
