// The HTTP server with real sockets: answers and streams that come from other threads, clients that
// go away, requests that are too large, and the end of the server while requests are open.
#include "actors/service/shell/http_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/file_descriptor.h"

TEST_SUITE("http/server") {
  using namespace es;
  using namespace es::actors::http;

  // A connection to the server.
  class Client {
   public:
    explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      REQUIRE(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    }
    void send(const std::string& text) const {
      std::size_t done = 0;
      while (done < text.size()) {
        const ssize_t n =
            ::send(socket_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
        if (n <= 0) return;  // The server has closed the connection.
        done += static_cast<std::size_t>(n);
      }
    }
    void get(const std::string& path) const {
      send("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    }
    // Whether the server has not closed the connection; nothing is expected to be read.
    bool is_open() const {
      char byte = 0;
      const ssize_t n = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      return n > 0 || (n < 0 && errno == EAGAIN);
    }
    // Everything that the server sends until it closes the connection.
    std::string rest() const {
      std::string text;
      char part[4096];
      for (ssize_t n = 0; (n = ::recv(socket_.get(), part, sizeof part, 0)) > 0;)
        text.append(part, static_cast<std::size_t>(n));
      return text;
    }
    // Waits until this text has come.
    std::string until(const std::string& wanted) const {
      std::string text;
      char one = 0;
      while (text.find(wanted) == std::string::npos && ::recv(socket_.get(), &one, 1, 0) == 1)
        text += one;
      return text;
    }

   private:
    FileDescriptor socket_;
  };

  std::unique_ptr<HttpServer> serve(HttpServer::Handler handler) {
    auto server = HttpServer::start({.address = "127.0.0.1"}, std::move(handler));
    REQUIRE(server.ok());
    return *std::move(server);
  }

  TEST_CASE("answers may come at once, or later from another thread") {
    std::mutex mutex;
    std::vector<std::jthread> threads;
    const auto server = serve([&](Request request, std::shared_ptr<Reply> reply) {
      const auto answer = [request, reply] {
        reply->send({.content_type = kText,
                     .body = request.method + " " + request.path + " " + request.query.at("q") +
                             " " + request.body});
      };
      if (request.path == "/now") return answer();
      const std::lock_guard lock(mutex);
      threads.emplace_back(answer);
    });
    std::vector<std::jthread> clients;
    std::atomic<int> right = 0;
    for (int i = 0; i < 32; ++i)
      clients.emplace_back([&, i] {
        const std::string path = i % 2 == 0 ? "/now" : "/later", q = std::to_string(i);
        const Client client(server->port());
        client.send("POST " + path + "?q=" + q + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
                    "Content-Length: 4\r\n\r\nbody");
        const std::string text = client.rest();
        right +=
            text.starts_with("HTTP/1.1 200") && text.ends_with("POST " + path + " " + q + " body");
      });
    clients.clear();
    CHECK(right == 32);
  }

  TEST_CASE("a stream goes to a client that reads, and ends for one that has gone") {
    std::atomic<int> gone = 0;
    std::mutex mutex;
    std::vector<std::jthread> threads;
    const auto server = serve([&](const Request& request, std::shared_ptr<Reply> reply) {
      const bool endless = request.path == "/endless";
      const std::lock_guard lock(mutex);
      threads.emplace_back([&gone, endless, reply = std::move(reply)](std::stop_token stop) {
        reply->begin_stream({.content_type = "text/event-stream", .body = "begin\n"});
        for (int i = 0; (endless || i < 1000) && !stop.stop_requested(); ++i)
          if (!reply->push("part " + std::to_string(i) + "\n")) {
            ++gone;
            return;
          }
        reply->end();
      });
    });
    const Client reader(server->port());
    reader.get("/finite");
    const std::string text = reader.rest();
    CHECK(text.find("begin\n") != std::string::npos);
    CHECK(text.find("part 999\n") != std::string::npos);
    {
      const Client leaver(server->port());
      leaver.get("/endless");
      CHECK(leaver.until("part 3").ends_with("part 3"));
    }
    // The thread ends when the server knows that the client has gone; otherwise this test hangs.
    std::jthread endless;
    {
      const std::lock_guard lock(mutex);
      endless = std::move(threads.back());
    }
    while (endless.joinable() && gone == 0) std::this_thread::yield();
    CHECK(gone == 1);
  }

  TEST_CASE("a request that is too large is refused") {
    const auto server = serve([](Request, std::shared_ptr<Reply> reply) { reply->send({}); });
    const Client client(server->port());
    client.send("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                std::to_string(kRequestBytesMax + 1) + "\r\n\r\n" +
                std::string(kRequestBytesMax + 1, 'x'));
    CHECK(client.rest().starts_with("HTTP/1.1 413"));
  }

  TEST_CASE("bodies that are being received have a bound together") {
    const auto server = serve([](Request request, std::shared_ptr<Reply> reply) {
      reply->send({.body = std::to_string(request.body.size())});
    });
    const auto begin = [](const Client& client, std::size_t bytes) {
      client.send("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                  std::to_string(kRequestBytesMax) + "\r\n\r\n" + std::string(bytes, 'x'));
    };
    {
      // These never send their last byte.
      std::vector<std::unique_ptr<Client>> slow;
      for (std::size_t i = 0; i < kReceivedBytesMax / kRequestBytesMax; ++i) {
        slow.push_back(std::make_unique<Client>(server->port()));
        begin(*slow.back(), kRequestBytesMax - 1);
      }
      const auto is_refused = [&] {
        const Client next(server->port());
        begin(next, kRequestBytesMax);
        return next.rest().starts_with("HTTP/1.1 503");
      };
      while (!is_refused()) std::this_thread::yield();
      const Client small(server->port());
      small.get("/");
      CHECK(small.rest().starts_with("HTTP/1.1 200"));
    }
    const auto is_taken = [&] {
      const Client next(server->port());
      begin(next, kRequestBytesMax);
      return next.rest().ends_with("\r\n\r\n" + std::to_string(kRequestBytesMax));
    };
    while (!is_taken()) std::this_thread::yield();
  }

  TEST_CASE("one address cannot have all connections") {
    const auto server = HttpServer::start(
        {.address = "127.0.0.1", .connections_max = 8, .connections_of_address_max = 2},
        [](const Request&, const std::shared_ptr<Reply>& reply) { reply->send({}); });
    REQUIRE(server.ok());
    const Client first((*server)->port()), second((*server)->port());
    first.send("GET / HTTP/1.1\r\n");
    second.send("GET / HTTP/1.1\r\n");
    const auto is_closed = [&] {
      const Client next((*server)->port());
      next.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      return next.rest().empty();
    };
    while (!is_closed()) std::this_thread::yield();
  }

  // Whether the server closes the connection although its client goes on to send.
  bool ends_while_sending(const Client& client, const std::string& byte) {
    for (;;) {
      client.send(byte);
      if (!client.is_open()) return true;
      std::this_thread::yield();
    }
  }

  TEST_CASE("a client that sends its request slowly is not waited for") {
    const auto server = HttpServer::start(
        {.address = "127.0.0.1", .request_max = std::chrono::milliseconds(50)},
        [](const Request&, const std::shared_ptr<Reply>& reply) { reply->send({}); });
    REQUIRE(server.ok());
    const Client header((*server)->port()), body((*server)->port());
    header.send("GET / HTTP/1.1\r\nHost: x\r\nX-a: ");
    body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    CHECK(ends_while_sending(header, "a"));
    CHECK(ends_while_sending(body, "a"));
  }

  TEST_CASE("clients that only hold connections do not shut others out") {
    const auto server = HttpServer::start(
        {.address = "127.0.0.1", .connections_max = 8, .connections_of_address_max = 1000},
        [](const Request&, const std::shared_ptr<Reply>& reply) { reply->send({}); });
    REQUIRE(server.ok());
    std::vector<std::unique_ptr<Client>> slow;
    for (int i = 0; i < 100; ++i) {
      slow.push_back(std::make_unique<Client>((*server)->port()));
      slow.back()->send("GET / HTTP/1.1\r\nX-a: ");
    }
    const Client next((*server)->port());
    next.get("/");
    CHECK(next.rest().starts_with("HTTP/1.1 200"));
    CHECK(ends_while_sending(*slow.front(), "a"));
  }

  TEST_CASE("HEAD is GET without a body") {
    const auto server = serve([](const Request& request, const std::shared_ptr<Reply>& reply) {
      reply->send({.content_type = kText, .body = request.method});
    });
    const Client client(server->port());
    client.send("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    const std::string text = client.rest();
    CHECK(text.starts_with("HTTP/1.1 200"));
    CHECK(text.ends_with("\r\n\r\n"));
  }

  TEST_CASE("an answer that is still to come is abandoned when the client leaves") {
    std::mutex mutex;
    std::shared_ptr<Reply> kept;
    const auto server = serve([&](const Request&, std::shared_ptr<Reply> reply) {
      const std::lock_guard lock(mutex);
      kept = std::move(reply);
    });
    const auto abandoned = [&]() -> std::optional<bool> {
      const std::lock_guard lock(mutex);
      if (kept == nullptr) return {};
      return kept->abandoned();
    };
    {
      const Client leaver(server->port());
      leaver.get("/later");
      while (!abandoned()) std::this_thread::yield();
      CHECK(abandoned() == false);
    }
    while (abandoned() == false) std::this_thread::yield();
    CHECK(abandoned() == true);
    kept->send({});
  }

  TEST_CASE("a reply that is dropped without an answer is an answer") {
    const auto server = serve([](const Request&, const std::shared_ptr<Reply>&) {});
    const Client client(server->port());
    client.get("/");
    CHECK(client.rest().starts_with("HTTP/1.1 503"));
  }

  TEST_CASE("the server ends while requests and streams are open") {
    std::vector<std::shared_ptr<Reply>> kept;
    std::atomic<int> came = 0;
    auto server = serve([&](const Request& request, std::shared_ptr<Reply> reply) {
      if (request.path == "/stream") reply->begin_stream({.body = "begin\n"});
      kept.push_back(std::move(reply));
      ++came;
    });
    const Client waiting(server->port()), streaming(server->port());
    waiting.get("/wait");
    streaming.get("/stream");
    CHECK(streaming.until("begin").ends_with("begin"));
    while (came < 2) std::this_thread::yield();
    server.reset();
    CHECK(waiting.rest().starts_with("HTTP/1.1 503"));
    streaming.rest();
    // Replies outlive the server.
    CHECK_FALSE(kept.back()->push("more"));
    kept.front()->send({});
  }

  TEST_CASE("an address that cannot be used is an error") {
    const auto handler = [](Request, std::shared_ptr<Reply>) {};
    const auto name = HttpServer::start({.address = "localhost"}, handler);
    REQUIRE_FALSE(name.ok());
    CHECK(name.error().kind == ErrorKind::kUsage);
    const auto first = serve(handler);
    const auto second = HttpServer::start({.address = "127.0.0.1", .port = first->port()}, handler);
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().kind == ErrorKind::kFailure);
    CHECK(second.error().message.find(std::to_string(first->port())) != std::string::npos);
    const auto no_tls = HttpServer::start(
        {.address = "127.0.0.1", .certificate = "no certificate", .key = "no key"}, handler);
    REQUIRE_FALSE(no_tls.ok());
  }
}
