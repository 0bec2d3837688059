// A peer that sends every message of the protocol, whether it may or not.
//
//   door_client HEAD KEYS PEER USE JOB TYPE...
//
// HEAD is an endpoint and KEYS a key directory or "-". PEER is the id under which it connects. USE
// is "client" or "node" and says which key of the directory it uses. It sends an empty message of
// each type (a number of proto/message_type.h) about JOB, and prints for each a line with the type,
// the type of the answer and, for a Refusal, its kind and its text. If the head turns it away, it
// prints "turned away".
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/zmq_transport.h"
#include "actors/views/views.h"
#include "proto/messages.h"

namespace {

using namespace es;
using namespace es::actors;

constexpr std::chrono::seconds kPatience{60};

class Peer {
 public:
  Status connect(const std::vector<std::string>& words) {
    TransportOptions options{.self = words.at(2), .insecure_loopback = words.at(1) == "-"};
    if (words.at(1) != "-") {
      auto keys =
          read_cluster_keys(words.at(1), words.at(3) == "node" ? KeyUse::kNode : KeyUse::kClient);
      if (!keys) return keys.error();
      options.keys = *std::move(keys);
    }
    auto started = Transport::start(
        std::move(options), {.on_frame = [this](const PeerId&, std::shared_ptr<const Frame> frame,
                                                const auto&) { note(std::move(frame)); },
                             .on_peer_up = [this](const PeerId&) { set(up_); },
                             .on_peer_down = [](const PeerId&) {},
                             .on_link_news =
                                 [this](const PeerId&, LinkNews news) {
                                   if (news.kind == LinkNews::Kind::kTurnedAway ||
                                       news.kind == LinkNews::Kind::kKeyRefused)
                                     set(away_);
                                 },
                             .log = [](const std::string&) {}});
    if (!started) return started.error();
    transport_ = *std::move(started);
    ES_RETURN_IF_ERROR(transport_->connect("head", words.at(0)));
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return up_ || away_; }))
      return failure("no answer");
    if (!up_) return refused("turned away");
    return {};
  }

  // The answer to an empty message of this type; null if none comes in time.
  std::shared_ptr<const Frame> ask(MessageType type, const std::string& job) {
    const auto empty = Msg<wire::ListJobs>::build({}, [](wire::ListJobs::Builder) {}).frame();
    const std::uint64_t number = ++last_;
    transport_->send(
        "head", std::make_shared<const Frame>(Frame{{.type = type, .job = job, .request = number},
                                                    kj::heapArray<capnp::word>(empty->body)}));
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return answers_.contains(number); });
    return answers_[number];
  }

 private:
  void set(bool& flag) {
    const std::lock_guard lock(mutex_);
    flag = true;
    changed_.notify_all();
  }
  void note(std::shared_ptr<const Frame> frame) {
    const std::lock_guard lock(mutex_);
    answers_.try_emplace(frame->envelope.request, frame);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool up_ = false, away_ = false;                                 // guarded by mutex_
  std::map<std::uint64_t, std::shared_ptr<const Frame>> answers_;  // guarded by mutex_
  std::uint64_t last_ = 0;
  std::unique_ptr<Transport> transport_;  // its callbacks use the members above
};

Status run(const std::vector<std::string>& words) {
  Peer peer;
  ES_RETURN_IF_ERROR(peer.connect(words));
  for (std::size_t i = 5; i < words.size(); ++i) {
    const auto answer = peer.ask(static_cast<MessageType>(std::stoi(words[i])), words.at(4));
    if (!answer) return failure("no answer to " + words[i]);
    std::cout << words[i] << " " << static_cast<int>(answer->envelope.type);
    if (answer->envelope.type == MessageType::kRefusal) {
      const auto refusal = Msg<wire::Refusal>::from_frame(answer)->decode(actors::read_refusal);
      if (!refusal) return refusal.error();
      std::cout << " " << static_cast<int>(refusal->error.kind) << " " << refusal->error.message;
    }
    std::cout << std::endl;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::cout << status.error().message << std::endl;
  return exit_code(status.error().kind);
}
