#pragma once
// HttpServer: HTTP over TCP, with or without TLS, on one thread of its own (libmicrohttpd).
//
// Threads: the handler is called on the server's thread, must not block, and must not throw. A
// Reply may be used on any thread. Stopping: the destructor ends the thread; replies that are
// still open are dropped, and later calls on them do nothing.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "actors/service/core/http_types.h"

namespace es::actors::http {

// The answer to one request: send() once, or begin_stream() once and then push() until end().
// If it is destroyed without an answer, the client gets status 503.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(Response response) = 0;
  // Begins an answer whose body follows in parts. `response.body` is its first part.
  virtual void begin_stream(Response response) = 0;
  // Appends to the body. Returns false if the client has gone, or does not read: more than
  // kUnreadBytesMax bytes wait for it. The stream is then over.
  virtual bool push(std::string_view text) = 0;
  virtual void end() = 0;
  // Whether the client waits no more for the answer: it has closed its end of the connection,
  // or the connection is gone.
  virtual bool abandoned() const = 0;
};

inline constexpr std::size_t kUnreadBytesMax = 1 << 20;
// Largest body of a request. A larger one is answered with status 413.
inline constexpr std::size_t kRequestBytesMax = 4 << 20;
// Of all requests that are being received. Any program that can connect may send a body, because
// the token is looked at when the request is complete. A request that would exceed this is answered
// with status 503.
inline constexpr std::size_t kReceivedBytesMax = 64 << 20;

struct HttpServerOptions {
  std::string address;      // "127.0.0.1", "0.0.0.0" or "::"
  std::uint16_t port = 0;   // 0: any free port
  std::string certificate;  // PEM text; empty: no TLS
  std::string key;          // PEM text
  // Connections above this number take the place of others (core/connection_book.h).
  unsigned connections_max = 4096;
  // Of one address, so that it cannot lock the others out.
  unsigned connections_of_address_max = 3072;
  // The time limits of a connection without a request, and of a request from its first line to its
  // last byte. They count from the beginning, so a client that is slow on purpose ends too.
  std::chrono::milliseconds idle_max{120'000};
  std::chrono::milliseconds request_max{30'000};
};

class HttpServer {
 public:
  using Handler = std::function<void(Request, std::shared_ptr<Reply>)>;
  // Errors: usage (no such address), failure (the port is taken, or TLS cannot be used).
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                   Handler handler);
  virtual ~HttpServer() = default;
  // The port on which it listens.
  virtual std::uint16_t port() const = 0;
};

}  // namespace es::actors::http
