#include "actors/esctl/client/client.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <random>

#include "actors/esctl/client/connect_error.h"
#include "proto/base/check.h"

namespace es::actors::esctl {
namespace {

using Clock = std::chrono::steady_clock;

// A head that listens answers within milliseconds. On a busy machine it may take longer than the
// time after which the transport calls a peer silent; the link continues to try.
constexpr std::chrono::seconds kConnectTimeout{5};
// If a process is there by then, it is stopped or its machine is very busy, and may answer later.
constexpr std::chrono::seconds kBusyTimeout{15};

// After this time, a process that accepts connections but sends nothing is probed.
constexpr std::chrono::seconds kSilenceMax{1};
constexpr std::chrono::milliseconds kProbePatience{300};

// A handshake that takes so long was given up, by one side or the other, because the head is slow.
// One that fails for another reason fails at once.
constexpr std::chrono::milliseconds kHandshakeGivenUp{1500};

// `connected`: when the newest connection was made.
void note(ConnectAttempt& attempt, LinkNews news, Clock::time_point& connected) {
  attempt.news = news;
  const auto now = Clock::now();
  if (news.kind == LinkNews::Kind::kConnected) connected = now;
  if (news.kind == LinkNews::Kind::kTurnedAway) ++attempt.turned_away;
  if (news.kind == LinkNews::Kind::kHandshakeFailed && now - connected < kHandshakeGivenUp)
    ++attempt.handshakes_failed;
}

Result<std::shared_ptr<const Frame>> unless_refused(const std::shared_ptr<const Frame>& frame) {
  if (frame->envelope.type != MessageType::kRefusal) return frame;
  const auto refusal = Msg<wire::Refusal>::from_frame(frame)->decode(read_refusal);
  return refusal ? refusal->error : refusal.error();
}

// The head refuses a name that is in use, so every client needs another one. 64 random bits make an
// equal name practically impossible.
std::string random_peer_id() {
  std::random_device random;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string id = "client/";
  for (int i = 0; i < 16; ++i) id += kHex[random() % 16];
  return id;
}

}  // namespace

Client::Client(std::string endpoint, Interrupt interrupt)
    : endpoint_(std::move(endpoint)), interrupt_(std::move(interrupt)) {}

Result<std::unique_ptr<Client>> Client::connect(HeadAddress address, Interrupt interrupt) {
  const Result<Endpoint> endpoint = parse_endpoint(address.endpoint);
  if (!endpoint) return endpoint.error();
  const bool has_keys = address.keys.has_value();
  std::unique_ptr<Client> client(new Client(address.endpoint, std::move(interrupt)));
  // The callbacks run on the transport's thread and only post. The pointer stays valid: the client
  // is on the heap, and its transport ends before its inbox.
  Inbox* inbox = &client->inbox_;
  auto transport =
      Transport::start({.self = random_peer_id(),
                        .keys = std::move(address.keys),
                        .insecure_loopback = address.insecure_loopback},
                       {.on_frame =
                            [inbox](const PeerId&, std::shared_ptr<const Frame> f, const auto&) {
                              inbox->post({InboxItem::Kind::kFrame, std::move(f)});
                            },
                        .on_peer_up =
                            [inbox](const PeerId&) {
                              inbox->post({InboxItem::Kind::kHeadUp, nullptr});
                            },
                        .on_peer_down =
                            [inbox](const PeerId&) {
                              inbox->post({InboxItem::Kind::kHeadDown, nullptr});
                            },
                        .on_link_news =
                            [inbox](const PeerId&, LinkNews news) {
                              inbox->post({InboxItem::Kind::kLinkNews, nullptr, news});
                            },
                        .log = [](const std::string&) {}});
  if (!transport) return transport.error();
  client->transport_ = *std::move(transport);
  ES_RETURN_IF_ERROR(client->transport_->connect(kHeadPeer, address.endpoint));
  ES_RETURN_IF_ERROR(client->wait_until_up(*endpoint, has_keys));
  return client;
}

// Waits for the beat of the head. News of the link, and a probe of the endpoint after a failed
// attempt or a silence, can prove a cause that waiting does not remove. Then the error is returned
// at once. Otherwise the wait goes on until the deadline.
Status Client::wait_until_up(const Endpoint& endpoint, bool has_keys) {
  const auto start = Clock::now();
  auto deadline = start + kConnectTimeout;
  auto look_at = Clock::time_point::max(), connected = start;
  ConnectAttempt attempt{endpoint_, has_keys, static_cast<int>(kConnectTimeout.count())};
  for (;;) {
    const Result<InboxItem> item = next_item(std::min(deadline, look_at));
    // An error before the time is an interruption; later it is the time limit.
    if (!item && Clock::now() < std::min(deadline, look_at)) return item.error();
    if (!item && Clock::now() >= deadline) {
      // On a busy machine the transport may not have said anything yet.
      if (!attempt.probe) attempt.probe = probe_endpoint(endpoint, kProbePatience);
      if (!is_there(attempt) || deadline >= start + kBusyTimeout) return error_after_wait(attempt);
      deadline = start + kBusyTimeout;
      attempt.waited_s = static_cast<int>(kBusyTimeout.count());
      continue;
    }
    if (item && item->kind == InboxItem::Kind::kHeadUp) return {};
    if (item && item->kind != InboxItem::Kind::kLinkNews) continue;
    if (item) note(attempt, item->news, connected);
    if (item && item->news.kind == LinkNews::Kind::kConnected) {
      // A connection proves little, since a stopped process and one that is no easyscaled accept
      // connections too. If no beat follows, the endpoint is probed.
      look_at = Clock::now() + kSilenceMax;
      continue;
    }
    if (std::optional<Error> error = certain_error(attempt)) return *std::move(error);
    look_at = Clock::time_point::max();
    attempt.probe = probe_endpoint(endpoint, kProbePatience);
    if (std::optional<Error> error = certain_error(attempt)) return *std::move(error);
  }
}

Status Client::read_stream(
    std::uint64_t request,
    const std::function<Result<bool>(const std::shared_ptr<const Frame>&)>& on_frame) {
  for (;;) {
    const FrameResult frame = answer_to(request, std::nullopt);
    if (!frame) return frame.error();
    const Result<bool> ended = on_frame(*frame);
    if (!ended) return ended.error();
    if (*ended) return {};
  }
}

Status Client::follow(const JobId& job, const FollowOptions& options,
                      const std::function<void(const JobEventView&)>& on_event) {
  const std::uint64_t request = begin_stream<wire::FollowJob>(job, [&](wire::FollowJob::Builder b) {
    b.setLogFromStart(options.log_from_start);
    b.setUntilNow(options.until_now);
    b.setInfo(options.info);
  });
  return read_stream(request, [&](const std::shared_ptr<const Frame>& frame) -> Result<bool> {
    const auto message = Msg<wire::JobEvent>::from_frame(frame);
    if (!message) return message.error();
    const Result<JobEventView> event = message->decode(read_event);
    if (!event) return event.error();
    if (std::holds_alternative<StreamEnd>(*event)) return true;
    on_event(*event);
    return false;
  });
}

Client::FrameResult Client::exchange(std::shared_ptr<const Frame> request,
                                     std::chrono::milliseconds timeout) {
  const std::uint64_t number = request->envelope.request;
  // Set before the request is sent: from now on the head may carry it out, although its answer may
  // never arrive.
  unanswered_ = true;
  send(std::move(request));
  return answer_to(number, Clock::now() + timeout);
}

void Client::send(std::shared_ptr<const Frame> request) {
  transport_->send(kHeadPeer, std::move(request));
}

Client::FrameResult Client::answer_to_posted(std::uint64_t request) {
  const auto posted = posted_.extract(request);
  ES_CHECK(!posted.empty());
  if (posted.mapped() != nullptr) return unless_refused(posted.mapped());
  return answer_to(request, std::nullopt);
}

std::optional<Client::FrameResult> Client::arrived_answer(std::uint64_t request) {
  const auto posted = posted_.find(request);
  ES_CHECK(posted != posted_.end());
  if (posted->second == nullptr) return {};
  return unless_refused(posted_.extract(posted).mapped());
}

// Answers to other posted requests are kept until they are collected. Late answers to requests that
// have timed out are dropped.
Client::FrameResult Client::answer_to(std::uint64_t request, Deadline deadline) {
  for (;;) {
    Result<InboxItem> item = next_item(deadline);
    if (!item) return item.error();
    // The transport connects again by itself, but the request or its answer may be lost with the
    // old connection. Only the caller knows whether the request may be repeated.
    if (item->kind == InboxItem::Kind::kHeadDown)
      return failure("easyscaled at " + endpoint_ +
                     " has ended or closed the connection before it answered");
    if (item->frame == nullptr) continue;
    if (item->frame->envelope.request == request) {
      unanswered_ = false;
      return unless_refused(item->frame);
    }
    const auto posted = posted_.find(item->frame->envelope.request);
    if (posted != posted_.end()) posted->second = item->frame;
  }
}

Result<InboxItem> Client::next_item(Deadline deadline) {
  for (;;) {
    if (std::optional<InboxItem> item = inbox_.take()) return *std::move(item);
    ES_RETURN_IF_ERROR(wait_for_item(deadline));
  }
}

Status Client::wait_for_item(Deadline deadline) {
  // Asked before each wait. It empties the descriptor, which would otherwise end every poll() at
  // once.
  if (interrupt_.raised && interrupt_.raised()) return failure("interrupted");
  int wait_ms = -1;
  if (deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    if (left.count() <= 0) return failure("easyscaled at " + endpoint_ + " did not answer in time");
    // poll() takes an int. A long wait is cut into minutes, and the caller continues it.
    wait_ms = static_cast<int>(std::min<std::int64_t>(left.count(), 60'000));
  }
  std::array<pollfd, 2> fds{{{inbox_.fd(), POLLIN, 0}, {interrupt_.fd, POLLIN, 0}}};
  // A negative descriptor is ignored. So is the result, because the caller looks at the inbox, the
  // interrupt and the clock again.
  ::poll(fds.data(), fds.size(), wait_ms);
  return {};
}

}  // namespace es::actors::esctl
