#include "actors/esctl/client.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <system_error>

#include "actors/gateway/endpoint.h"

namespace es::actors::esctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHeadPeer = "head";
// A head that listens says hello within milliseconds; on a busy machine it may take longer than
// the transport waits before it calls a peer silent, and goes on trying.
constexpr std::chrono::seconds kConnectTimeout{5};

Error nobody_answers(const std::string& endpoint) {
  return not_found("no easyscaled answers at " + endpoint +
                   " (is it running? see easyscaled --help, or use `esctl run` which needs none)");
}

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
  // Without a socket file there is no need to wait for an answer. (Trying to connect would tell
  // more, but the head takes it for a broken handshake.)
  std::error_code code;
  if (endpoint->kind == Endpoint::Kind::kIpc && !std::filesystem::exists(endpoint->path, code))
    return nobody_answers(address.endpoint);

  std::unique_ptr<Client> client(new Client(address.endpoint, std::move(interrupt)));
  Inbox* inbox = &client->inbox_;
  auto transport = Transport::start({.self = random_peer_id(),
                                     .keys = std::move(address.keys),
                                     .insecure_loopback = address.insecure_loopback},
                                    {.on_frame =
                                         [inbox](const PeerId&, std::shared_ptr<const Frame> f) {
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
                                     .log = [](const std::string&) {}});
  if (!transport) return transport.error();
  client->transport_ = *std::move(transport);
  ES_RETURN_IF_ERROR(client->transport_->connect(kHeadPeer, address.endpoint));
  ES_RETURN_IF_ERROR(client->wait_until_up());
  return client;
}

Status Client::wait_until_up() {
  const auto deadline = Clock::now() + kConnectTimeout;
  bool silent = false;
  for (;;) {
    const Result<InboxItem> item = next_item(deadline);
    if (!item) return silent && Clock::now() >= deadline ? nobody_answers(endpoint_) : item.error();
    if (item->kind == InboxItem::Kind::kHeadUp) return {};
    silent = true;
  }
}

Status Client::follow(const JobId& job, const FollowOptions& options,
                      const std::function<void(const JobEventView&)>& on_event) {
  const std::uint64_t request = ++last_request_;
  transport_->send(kHeadPeer,
                   Msg<wire::FollowJob>::build({.job = job, .request = request},
                                               [&](wire::FollowJob::Builder b) {
                                                 b.setLogFromStart(options.log_from_start);
                                                 b.setUntilNow(options.until_now);
                                                 b.setInfo(options.info);
                                               })
                       .frame());
  for (;;) {
    FrameResult frame = answer_to(request, std::nullopt);
    if (!frame) return frame.error();
    const auto message = Msg<wire::JobEvent>::from_frame(*std::move(frame));
    if (!message) return message.error();
    const Result<JobEventView> event = message->decode(read_event);
    if (!event) return event.error();
    if (std::holds_alternative<StreamEnd>(*event)) return {};
    on_event(*event);
  }
}

Client::FrameResult Client::exchange(std::shared_ptr<const Frame> request,
                                     std::chrono::milliseconds timeout) {
  const std::uint64_t number = request->head.request;
  unanswered_ = true;
  transport_->send(kHeadPeer, std::move(request));
  return answer_to(number, Clock::now() + timeout);
}

// Answers to other requests came too late for whoever asked: they are skipped.
Client::FrameResult Client::answer_to(std::uint64_t request, Deadline deadline) {
  for (;;) {
    Result<InboxItem> item = next_item(deadline);
    if (!item) return item.error();
    if (item->kind == InboxItem::Kind::kHeadDown)
      return failure("easyscaled at " + endpoint_ + " is gone; it did not answer");
    if (item->frame == nullptr || item->frame->head.request != request) continue;
    unanswered_ = false;
    if (item->frame->head.type != MessageType::kRefusal) return item->frame;
    const auto refusal = Msg<wire::Refusal>::from_frame(item->frame)->decode(read_refusal);
    return refusal ? refusal->error : refusal.error();
  }
}

Result<InboxItem> Client::next_item(Deadline deadline) {
  for (;;) {
    if (std::optional<InboxItem> item = inbox_.take()) return *std::move(item);
    ES_RETURN_IF_ERROR(wait_for_item(deadline));
  }
}

Status Client::wait_for_item(Deadline deadline) {
  if (interrupt_.raised && interrupt_.raised()) return failure("interrupted");
  int wait_ms = -1;
  if (deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    if (left.count() <= 0) return failure("easyscaled at " + endpoint_ + " did not answer in time");
    wait_ms = static_cast<int>(std::min<std::int64_t>(left.count(), 60'000));
  }
  std::array<pollfd, 2> fds{{{inbox_.fd(), POLLIN, 0}, {interrupt_.fd, POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), wait_ms);
  return {};
}

}  // namespace es::actors::esctl
