#include "actors/base/gateway/shell/zmq_transport.h"

#include <pthread.h>
#include <signal.h>

#include <mutex>
#include <thread>
#include <utility>
#include <zmq.hpp>

#include "actors/base/gateway/core/endpoint.h"
#include "actors/base/gateway/core/outbox.h"
#include "actors/base/gateway/shell/transport_loop.h"

namespace es::actors {
namespace {

constexpr std::chrono::hours kDeadAfterMax{1};  // the timers of TCP allow little more

Status check_peer_id(const PeerId& id) {
  if (is_valid_peer_id(id)) return {};
  return usage_error("peer id \"" + id + "\": allowed are 1 to " + std::to_string(kPeerIdBytesMax) +
                     " printable characters without spaces");
}

Status check_options(const TransportOptions& options) {
  ES_RETURN_IF_ERROR(check_peer_id(options.self));
  if (options.heartbeat_interval.count() < 2)
    return usage_error(
        "heartbeat_interval = " + std::to_string(options.heartbeat_interval.count()) +
        " ms: allowed is at least 2");
  if (options.dead_after < 2 * options.heartbeat_interval || options.dead_after > kDeadAfterMax)
    return usage_error("dead_after = " + std::to_string(options.dead_after.count()) +
                       " ms: allowed is twice heartbeat_interval, " +
                       std::to_string(2 * options.heartbeat_interval.count()) +
                       " ms, up to one hour");
  return {};
}

Result<Endpoint> check_listen(const TransportOptions& options) {
  Result<Endpoint> endpoint = parse_endpoint(options.endpoint);
  if (!endpoint) return endpoint;
  // A machine without server.key can connect with keys but cannot listen with them.
  const bool can_serve = options.keys && options.keys->server;
  // A process that has keys but no server.key must not listen without keys by mistake.
  const bool may_be_insecure = options.insecure_loopback && !options.keys;
  ES_RETURN_IF_ERROR(check_security(*endpoint, can_serve, may_be_insecure));
  if (endpoint->kind == Endpoint::Kind::kIpc) ES_RETURN_IF_ERROR(prepare_ipc(*endpoint));
  return endpoint;
}

// Starts a thread that receives no signals, because the main thread handles them.
template <class Run>
std::thread start_quiet_thread(Run run) {
  sigset_t all, before;
  // A new thread inherits the mask of the thread that starts it, so the signals are blocked before
  // and allowed again afterwards.
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

class Transport::Impl {
 public:
  Impl(TransportOptions options, TransportEvents events)
      : options_(std::move(options)),
        events_(std::move(events)),
        loop_(std::make_unique<TransportLoop>(context_, options_, events_, counters_)) {}

  ~Impl() { stop(); }

  // The end of the context waits until the loop's sockets have flushed their queues.
  void stop() {
    const std::lock_guard lock(stopping_);
    // A second call waits for the first one and then finds nothing to do.
    if (!thread_.joinable()) return;
    outbox_.post(StopCommand{});
    thread_.join();
    loop_.reset();
    context_.close();
  }

  Status listen() {
    if (options_.endpoint.empty()) return {};
    const Result<Endpoint> endpoint = check_listen(options_);
    if (!endpoint) return endpoint.error();
    Result<std::string> bound = loop_->listen(*endpoint);
    if (!bound) return bound.error();
    endpoint_ = *std::move(bound);
    return {};
  }

  void run() {
    thread_ = start_quiet_thread([this] { loop_->run(outbox_); });
  }

  // Constant after start().
  const TransportOptions options_;
  const TransportEvents events_;
  std::string endpoint_;

  // Synchronised by themselves. The context is destroyed after all sockets (in loop_) and waits
  // until their queues are flushed; the counters are written until then.
  TransportCounters counters_;
  Outbox outbox_;

 private:
  zmq::context_t context_;
  std::unique_ptr<TransportLoop> loop_;
  std::mutex stopping_;
  std::thread thread_;  // guarded by stopping_ while it runs
};

Transport::Transport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transport::~Transport() = default;

Result<std::unique_ptr<Transport>> Transport::start(TransportOptions options,
                                                    TransportEvents events) {
  ES_CHECK(events.on_frame && events.on_peer_up && events.on_peer_down && events.log);
  ES_RETURN_IF_ERROR(check_options(options));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(events));
  // The socket is bound before the thread starts, so an error can be returned to the caller.
  ES_RETURN_IF_ERROR(impl->listen());
  impl->run();
  return std::unique_ptr<Transport>(new Transport(std::move(impl)));
}

const std::string& Transport::endpoint() const {
  return impl_->endpoint_;
}

void Transport::send(const PeerId& to, std::shared_ptr<const Frame> frame) {
  ES_CHECK(frame != nullptr && frame->body_bytes() > 0);
  impl_->outbox_.post(SendCommand{.to = to, .frame = std::move(frame)});
}

Status Transport::connect(const PeerId& peer, const std::string& endpoint) {
  ES_RETURN_IF_ERROR(check_peer_id(peer));
  if (peer == impl_->options_.self)
    return usage_error("peer id \"" + peer +
                       "\": is the id of this process, which cannot connect to itself");
  Result<Endpoint> parsed = parse_endpoint(endpoint);
  if (!parsed) return parsed.error();
  ES_RETURN_IF_ERROR(
      check_security(*parsed, impl_->options_.keys.has_value(), impl_->options_.insecure_loopback));
  impl_->outbox_.post(ConnectCommand{.peer = peer, .endpoint = *std::move(parsed)});
  return {};
}

void Transport::disconnect(const PeerId& peer) {
  impl_->outbox_.post(DisconnectCommand{.peer = peer});
}

void Transport::authorize(access::AuthorizedKeys keys) {
  impl_->outbox_.post(AuthorizeCommand{.keys = std::move(keys)});
}

void Transport::stop() {
  impl_->stop();
}

TransportStats Transport::stats() const {
  return impl_->counters_.snapshot();
}

}  // namespace es::actors
