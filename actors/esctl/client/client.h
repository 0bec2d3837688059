#pragma once
// Client: one connection to a head. It sends a request and waits for the answer, or follows a job.
//
// Not thread-safe. Every wait ends: with the answer, with the loss of the head, after a time limit,
// or when the caller's Interrupt demands it. A Refusal becomes an Error with its kind and message.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/base/gateway/core/endpoint.h"
#include "actors/base/gateway/shell/keys.h"
#include "actors/base/gateway/shell/zmq_transport.h"
#include "actors/esctl/client/inbox.h"
#include "actors/views/views.h"
#include "proto/messages.h"

namespace es::actors::esctl {

// An event that can end a wait early. `raised` returns whether to stop waiting. It is called before
// a wait and whenever `fd` becomes readable, and must leave `fd` unreadable.
struct Interrupt {
  int fd = -1;
  std::function<bool()> raised;  // empty if nothing can interrupt
};

struct HeadAddress {
  std::string endpoint;
  std::optional<ClusterKeys> keys;  // needed for tcp
  bool insecure_loopback = false;   // tcp on the loopback address needs no keys
};

struct FollowOptions {
  bool log_from_start = false;
  bool until_now = false;
  bool info = false;
};

// The time limit for answers that the head gives at once.
inline constexpr std::chrono::seconds kAnswerTimeout{60};
// The time limit for answers that follow after a job has written a checkpoint or stopped.
inline constexpr std::chrono::minutes kJobTimeout{10};

class Client {
 public:
  // Errors: usage (endpoint), refused (TCP without keys), or the reason why no head answers. The
  // call does not wait longer if the system already knows the reason (connect_error.h).
  static Result<std::unique_ptr<Client>> connect(HeadAddress address, Interrupt interrupt);

  // Sends a Request about `job` and waits for its Answer. `job` is empty if the request is about
  // none.
  template <class Answer, class Request, class Fill>
  Result<Msg<Answer>> ask(const JobId& job, Fill&& fill,
                          std::chrono::milliseconds timeout = kAnswerTimeout) {
    const Envelope envelope{.job = job, .request = ++last_request_};
    auto frame = exchange(Msg<Request>::build(envelope, fill).frame(), timeout);
    if (!frame) return frame.error();
    return Msg<Answer>::from_frame(*std::move(frame));
  }

  // Sends a Request whose answer arrives much later and must be collected once. Returns its number.
  template <class Request, class Fill>
  std::uint64_t post(const JobId& job, Fill&& fill) {
    const Envelope envelope{.job = job, .request = ++last_request_};
    posted_.emplace(envelope.request, nullptr);
    send(Msg<Request>::build(envelope, fill).frame());
    return envelope.request;
  }
  // Waits for the answer to a posted request without a time limit. REQUIRES: post() returned
  // `request`.
  template <class Answer>
  Result<Msg<Answer>> collect(std::uint64_t request) {
    auto frame = answer_to_posted(request);
    if (!frame) return frame.error();
    return Msg<Answer>::from_frame(*std::move(frame));
  }

  // The answer to a posted request, once, if it came while another answer was awaited; no value: it
  // did not. If the head has ended since, it never comes. REQUIRES: post() returned `request`.
  template <class Answer>
  std::optional<Result<Msg<Answer>>> arrived(std::uint64_t request) {
    const auto frame = arrived_answer(request);
    if (!frame) return {};
    if (!*frame) return frame->error();
    return Msg<Answer>::from_frame(**frame);
  }

  // Sends a Request that is answered by a stream of frames, and returns its number.
  template <class Request, class Fill>
  std::uint64_t begin_stream(const JobId& job, Fill&& fill) {
    const Envelope envelope{.job = job, .request = ++last_request_};
    send(Msg<Request>::build(envelope, fill).frame());
    return envelope.request;
  }
  // Passes every frame of this stream to `on_frame` until that returns true, which means that the
  // stream has ended, or an error. No time limit. REQUIRES: no other request was sent meanwhile.
  Status read_stream(
      std::uint64_t request,
      const std::function<Result<bool>(const std::shared_ptr<const Frame>&)>& on_frame);

  // The last request was not answered, because the head ended or is very slow. The head may have
  // carried it out.
  bool unanswered() const { return unanswered_; }

  // Passes every event of the job's stream to `on_event` until the stream ends. No time limit.
  Status follow(const JobId& job, const FollowOptions& options,
                const std::function<void(const JobEventView&)>& on_event);

 private:
  using FrameResult = Result<std::shared_ptr<const Frame>>;
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  Client(std::string endpoint, Interrupt interrupt);
  Status wait_until_up(const Endpoint& endpoint, bool has_keys);
  void send(std::shared_ptr<const Frame> request);
  FrameResult exchange(std::shared_ptr<const Frame> request, std::chrono::milliseconds timeout);
  FrameResult answer_to_posted(std::uint64_t request);
  std::optional<FrameResult> arrived_answer(std::uint64_t request);
  FrameResult answer_to(std::uint64_t request, Deadline deadline);
  Result<InboxItem> next_item(Deadline deadline);
  Status wait_for_item(Deadline deadline);

  const std::string endpoint_;
  const Interrupt interrupt_;
  std::uint64_t last_request_ = 0;
  bool unanswered_ = false;
  Inbox inbox_;
  std::unique_ptr<Transport> transport_;  // posts to inbox_, so it is destroyed first
  // The posted requests that are not collected yet, each with its answer if this has arrived while
  // another answer was awaited.
  std::map<std::uint64_t, std::shared_ptr<const Frame>> posted_;
};

}  // namespace es::actors::esctl
