#include "actors/service/shell/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "actors/base/log/log.h"
#include "actors/service/core/connection_book.h"

namespace es::actors::http {
namespace {

int socket_of(MHD_Connection* connection) {
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == nullptr ? -1 : info->connect_fd;
}

// One request. Its connection is suspended while there is nothing to send. The server's thread
// belongs to libmicrohttpd; every other thread may call the functions of Reply.
class Call {
 public:
  explicit Call(MHD_Connection* connection) : connection_(connection) {}

  // --- on the server's thread

  Request request;
  bool begun = false;  // its header is there
  bool too_large = false;
  bool no_room = false;
  bool dispatched = false;

  // `received`: the bytes of all bodies that are being received.
  void append(const char* data, std::size_t bytes, std::size_t& received) {
    too_large = too_large || request.body.size() + bytes > kRequestBytesMax;
    no_room = no_room || (!too_large && received + bytes > kReceivedBytesMax);
    if (too_large || no_room) return;
    request.body.append(data, bytes);
    received += bytes;
  }

  // Returns whether the answer is still to come.
  bool suspend_until_answered() {
    const std::lock_guard lock(mutex_);
    if (!answered_) suspend();
    return !answered_;
  }

  // Stops the connection until an answer or more of a stream is there. REQUIRES: mutex_ is held.
  void suspend() {
    suspended_ = true;
    MHD_suspend_connection(connection_);
  }

  // Queues the answer, which is there after the connection was resumed. Nothing changes it any
  // more, so mutex_ is not needed. It must not be held: the functions for responses take a lock
  // that libmicrohttpd also holds while it calls read().
  MHD_Result queue(const std::shared_ptr<Call>& self) {
    if (suspend_until_answered()) return MHD_YES;
    MHD_Response* response =
        stream_ ? MHD_create_response_from_callback(
                      MHD_SIZE_UNKNOWN, 16 << 10, &Call::read, new std::shared_ptr<Call>(self),
                      [](void* held) { delete static_cast<std::shared_ptr<Call>*>(held); })
                : MHD_create_response_from_buffer(answer_.body.size(), answer_.body.data(),
                                                  MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", answer_.content_type.c_str());
    for (const auto& [name, value] : answer_.headers)
      MHD_add_response_header(response, name.c_str(), value.c_str());
    const MHD_Result queued =
        MHD_queue_response(connection_, static_cast<unsigned>(answer_.status), response);
    MHD_destroy_response(response);
    return queued;
  }

  // The connection is gone, or the answer is complete.
  void close() {
    const std::lock_guard lock(mutex_);
    connection_ = nullptr;
  }

  // --- on any thread

  void answer(Response response, bool stream) {
    const std::lock_guard lock(mutex_);
    if (answered_) return;
    answered_ = true;
    stream_ = stream;
    if (stream) unread_ = std::move(response.body);
    answer_ = std::move(response);
    resume();
  }

  bool push(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (connection_ == nullptr || ended_ || unread_.size() + text.size() > kUnreadBytesMax) {
      ended_ = true;
      resume();
      return false;
    }
    unread_ += text;
    resume();
    return true;
  }

  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    resume();
  }

  // libmicrohttpd does not look at a suspended connection, so the socket itself is asked.
  bool abandoned() {
    const std::lock_guard lock(mutex_);
    if (connection_ == nullptr) return true;
    const int fd = socket_of(connection_);
    if (fd < 0) return false;
    pollfd socket{.fd = fd, .events = POLLRDHUP, .revents = 0};
    return ::poll(&socket, 1, 0) > 0;
  }

 private:
  // REQUIRES: mutex_ is held.
  void resume() {
    if (suspended_ && connection_ != nullptr) MHD_resume_connection(connection_);
    suspended_ = false;
  }

  // libmicrohttpd asks for the next part of a stream.
  static ssize_t read(void* held, std::uint64_t, char* to, std::size_t most) {
    Call& call = **static_cast<std::shared_ptr<Call>*>(held);
    const std::lock_guard lock(call.mutex_);
    if (call.unread_.empty() && call.ended_) return MHD_CONTENT_READER_END_OF_STREAM;
    if (call.unread_.empty()) {
      call.suspend();
      return 0;
    }
    const std::size_t bytes = std::min(most, call.unread_.size());
    std::memcpy(to, call.unread_.data(), bytes);
    call.unread_.erase(0, bytes);
    return static_cast<ssize_t>(bytes);
  }

  std::mutex mutex_;
  MHD_Connection* connection_;  // nullptr: the client has gone
  bool suspended_ = false;
  bool answered_ = false, stream_ = false, ended_ = false;
  Response answer_;
  std::string unread_;
};

class CallReply : public Reply {
 public:
  explicit CallReply(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~CallReply() override {
    // These do nothing if there is an answer, or if the stream has ended.
    call_->answer(error_response(503, "the head is ending"), false);
    call_->end();
  }
  void send(Response response) override { call_->answer(std::move(response), false); }
  void begin_stream(Response response) override { call_->answer(std::move(response), true); }
  bool push(std::string_view text) override { return call_->push(text); }
  void end() override { call_->end(); }
  bool abandoned() const override { return call_->abandoned(); }

 private:
  std::shared_ptr<Call> call_;
};

std::string peer_of(MHD_Connection* connection) {
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == nullptr || info->client_addr == nullptr) return "";
  char host[NI_MAXHOST] = "";
  const bool v6 = info->client_addr->sa_family == AF_INET6;
  ::getnameinfo(info->client_addr, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in), host,
                sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

std::string header_of(MHD_Connection* connection, const char* name) {
  const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

MHD_Result add_query(void* map, MHD_ValueKind, const char* name, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(map))[name] = value == nullptr ? "" : value;
  return MHD_YES;
}

Request request_of(MHD_Connection* connection, const char* url, const char* method) {
  Request request{.method = method, .path = url};
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_query, &request.query);
  request.accept = header_of(connection, MHD_HTTP_HEADER_ACCEPT);
  request.authorization = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION);
  const std::string type = header_of(connection, MHD_HTTP_HEADER_CONTENT_TYPE);
  request.content_type = type.substr(0, type.find(';'));
  request.host = header_of(connection, MHD_HTTP_HEADER_HOST);
  request.origin = header_of(connection, MHD_HTTP_HEADER_ORIGIN);
  request.fetch_site = header_of(connection, "Sec-Fetch-Site");
  request.peer = peer_of(connection);
  return request;
}

void log_line(void*, const char* format, va_list arguments) {
  char text[512];
  if (std::vsnprintf(text, sizeof text, format, arguments) <= 0) return;
  std::string line(text);
  while (line.ends_with('\n')) line.pop_back();
  log::debug("http: " + line);
}

// Closes the connections that have to go (connection_book.h). The server's thread says what happens
// to the connections; a thread of this object watches the time limits. A socket is only shut down
// here, which libmicrohttpd notices; it closes the socket afterwards, so its number stays valid.
class Doorkeeper {
 public:
  explicit Doorkeeper(const HttpServerOptions& options)
      : book_({options.idle_max, options.request_max, options.connections_max}),
        step_(std::min(options.idle_max, options.request_max)),
        thread_([this](const std::stop_token& stop) { watch(stop); }) {}

  void opened(int socket) {
    const std::lock_guard lock(mutex_);
    book_.opened(socket, Clock::now());
    close_some();
  }
  void request_began(int socket) {
    const std::lock_guard lock(mutex_);
    book_.request_began(socket, Clock::now());
  }
  void request_came(int socket) {
    const std::lock_guard lock(mutex_);
    book_.request_came(socket, Clock::now());
  }
  void answered(int socket) {
    const std::lock_guard lock(mutex_);
    book_.answered(socket, Clock::now());
  }
  void closed(int socket) {
    const std::lock_guard lock(mutex_);
    book_.closed(socket);
  }

 private:
  using Clock = ConnectionBook::Clock;

  // No state that begins while it waits ends earlier than after `step_`.
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      close_some();
      const auto latest = Clock::now() + step_;
      stopped_.wait_until(lock, stop, std::min(book_.next_limit().value_or(latest), latest),
                          [] { return false; });
    }
  }

  // REQUIRES: mutex_ is held.
  void close_some() {
    for (const int socket : book_.to_close(Clock::now())) ::shutdown(socket, SHUT_RDWR);
  }

  std::mutex mutex_;
  ConnectionBook book_;  // guarded by mutex_
  const std::chrono::milliseconds step_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last, so that it ends first
};

class MicroServer : public HttpServer {
 public:
  MicroServer(const HttpServerOptions& options, Handler handler)
      : handler_(std::move(handler)), doorkeeper_(options) {}

  ~MicroServer() override {
    if (daemon_ == nullptr) return;
    // libmicrohttpd cannot stop while a connection is suspended.
    MHD_quiesce_daemon(daemon_);
    stopping_ = true;
    std::set<std::shared_ptr<Call>> open;
    {
      const std::lock_guard lock(mutex_);
      open = open_;
    }
    for (const auto& call : open) {
      call->answer(error_response(503, "the head is ending"), false);
      call->end();
    }
    {
      // The last answers leave the process before it ends, unless a client does not read.
      std::unique_lock lock(mutex_);
      closed_.wait_for(lock, kLastAnswers, [this] { return open_.empty(); });
    }
    MHD_stop_daemon(daemon_);
  }

  Status listen(const HttpServerOptions& options) {
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    sockaddr_storage address{};
    if (!fill(options, address))
      return usage_error("--http: " + options.address + " is no IP address");
    if (address.ss_family == AF_INET6) flags |= MHD_USE_DUAL_STACK;
    std::vector<MHD_OptionItem> items{
        {MHD_OPTION_SOCK_ADDR, 0, &address},
        {MHD_OPTION_CONNECTION_LIMIT,
         static_cast<std::intptr_t>(options.connections_max + kEntrance), nullptr},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT,
         static_cast<std::intptr_t>(options.connections_of_address_max), nullptr},
        {MHD_OPTION_CONNECTION_TIMEOUT, kStuckSeconds, nullptr},
        {MHD_OPTION_NOTIFY_CONNECTION, reinterpret_cast<std::intptr_t>(&MicroServer::connection),
         this},
        {MHD_OPTION_URI_LOG_CALLBACK, reinterpret_cast<std::intptr_t>(&MicroServer::first_line),
         this},
        {MHD_OPTION_NOTIFY_COMPLETED, reinterpret_cast<std::intptr_t>(&MicroServer::completed),
         this},
        {MHD_OPTION_EXTERNAL_LOGGER, reinterpret_cast<std::intptr_t>(&log_line), nullptr},
    };
    std::string certificate = options.certificate, key = options.key;
    if (!certificate.empty()) {
      flags |= MHD_USE_TLS;
      items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, certificate.data()});
      items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, key.data()});
    }
    items.push_back({MHD_OPTION_END, 0, nullptr});
    daemon_ = MHD_start_daemon(flags, options.port, nullptr, nullptr, &MicroServer::access, this,
                               MHD_OPTION_ARRAY, items.data(), MHD_OPTION_END);
    if (daemon_ == nullptr)
      return failure("--http: cannot listen at " + options.address + ":" +
                     std::to_string(options.port) + ": " + std::strerror(errno) +
                     (certificate.empty() ? "" : ", or the certificate or key is not valid"));
    return {};
  }

  std::uint16_t port() const override {
    return MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port;
  }

 private:
  // A client that takes nothing of its answer for so long is gone.
  static constexpr int kStuckSeconds = 120;
  // Above HttpServerOptions::connections_max, for connections that take the place of others.
  static constexpr unsigned kEntrance = 64;
  static constexpr std::chrono::milliseconds kLastAnswers{500};

  static bool fill(const HttpServerOptions& options, sockaddr_storage& address) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    if (::inet_pton(AF_INET, options.address.c_str(), &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      v4->sin_port = htons(options.port);
      return true;
    }
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    address = {};
    if (::inet_pton(AF_INET6, options.address.c_str(), &v6->sin6_addr) != 1) return false;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(options.port);
    return true;
  }

  // libmicrohttpd calls this when the header of a request is there, for each part of its body, when
  // all of it is there, and when the connection was resumed.
  static MHD_Result access(void* self, MHD_Connection* connection, const char* url,
                           const char* method, const char*, const char* data, std::size_t* bytes,
                           void** state) {
    return static_cast<MicroServer*>(self)->serve(connection, url, method, data, bytes, state);
  }

  // libmicrohttpd calls this when a connection has begun, and before it closes the socket.
  static void connection(void* self, MHD_Connection* connection, void**,
                         MHD_ConnectionNotificationCode what) {
    Doorkeeper& doorkeeper = static_cast<MicroServer*>(self)->doorkeeper_;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
      doorkeeper.opened(socket_of(connection));
    else
      doorkeeper.closed(socket_of(connection));
  }

  // libmicrohttpd calls this when the first line of a request is there, before its header. What is
  // returned is the `state` of serve() and completed().
  static void* first_line(void* self, const char*, MHD_Connection* connection) {
    auto* server = static_cast<MicroServer*>(self);
    server->doorkeeper_.request_began(socket_of(connection));
    auto call = std::make_shared<Call>(connection);
    const std::lock_guard lock(server->mutex_);
    server->open_.insert(call);
    return new std::shared_ptr<Call>(std::move(call));
  }

  MHD_Result serve(MHD_Connection* connection, const char* url, const char* method,
                   const char* data, std::size_t* bytes, void** state) {
    const std::shared_ptr<Call> call = *static_cast<std::shared_ptr<Call>*>(*state);
    if (!call->begun) {
      call->begun = true;
      call->request = request_of(connection, url, method);
      return MHD_YES;
    }
    if (*bytes != 0) {
      call->append(data, *bytes, received_);
      *bytes = 0;
      return MHD_YES;
    }
    if (!call->dispatched) {
      doorkeeper_.request_came(socket_of(connection));
      dispatch(call);
    }
    return call->queue(call);
  }

  void dispatch(const std::shared_ptr<Call>& call) {
    call->dispatched = true;
    received_ -= call->request.body.size();
    if (call->no_room)
      return call->answer(
          error_response(503, "this head receives too many large requests now; try again"), false);
    if (stopping_) return call->answer(error_response(503, "the head is ending"), false);
    if (call->too_large)
      return call->answer(error_response(413, "the body of a request has at most " +
                                                  std::to_string(kRequestBytesMax) + " bytes"),
                          false);
    handler_(std::move(call->request), std::make_shared<CallReply>(call));
  }

  static void completed(void* self, MHD_Connection* connection, void** state,
                        MHD_RequestTerminationCode) {
    if (*state == nullptr) return;
    auto* held = static_cast<std::shared_ptr<Call>*>(*state);
    (*held)->close();
    {
      auto* server = static_cast<MicroServer*>(self);
      server->doorkeeper_.answered(socket_of(connection));
      if (!(*held)->dispatched) server->received_ -= (*held)->request.body.size();
      const std::lock_guard lock(server->mutex_);
      server->open_.erase(*held);
      server->closed_.notify_all();
    }
    delete held;
    *state = nullptr;
  }

  Handler handler_;
  Doorkeeper doorkeeper_;
  MHD_Daemon* daemon_ = nullptr;
  std::size_t received_ = 0;  // bytes of bodies; used on the server's thread
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable closed_;        // a call has left open_
  std::set<std::shared_ptr<Call>> open_;  // guarded by mutex_
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                      Handler handler) {
  auto server = std::make_unique<MicroServer>(options, std::move(handler));
  ES_RETURN_IF_ERROR(server->listen(options));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace es::actors::http
