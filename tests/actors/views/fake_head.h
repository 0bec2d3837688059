#pragma once
// FakeHead answers clients over a real transport with what a test specifies, and records their
// requests. It needs no cluster, no devices and no training.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/zmq_transport.h"
#include "proto/messages.h"

namespace es::actors::test {

using Frames = std::vector<std::shared_ptr<const Frame>>;

class FakeHead {
 public:
  // Answers a request. Runs on the thread of the transport.
  using Handler = std::function<Frames(const std::shared_ptr<const Frame>& request)>;

  // Listens at an ipc endpoint. Requests without a handler are refused.
  explicit FakeHead(const std::string& endpoint);

  // Call this before the first client connects.
  void on(MessageType type, Handler handler);
  // The requests that were received, in order.
  std::vector<std::shared_ptr<const Frame>> seen();

 private:
  void answer(const PeerId& from, const std::shared_ptr<const Frame>& request);

  std::mutex mutex_;  // Guards the members below.
  std::map<MessageType, Handler> handlers_;
  Frames seen_;
  // It is the last member, because its thread uses the others.
  std::unique_ptr<Transport> transport_;
};

// The answer of type Answer to `request`.
template <class Answer, class Fill>
std::shared_ptr<const Frame> reply(const std::shared_ptr<const Frame>& request, Fill&& fill) {
  return Msg<Answer>::build({.job = request->envelope.job, .request = request->envelope.request},
                            std::forward<Fill>(fill))
      .frame();
}
std::shared_ptr<const Frame> done(const std::shared_ptr<const Frame>& request);
std::shared_ptr<const Frame> refusal(const std::shared_ptr<const Frame>& request, ErrorKind kind,
                                     const std::string& message);

// A job with two stages, an evaluation and a worker, in the given state. It has made 30 of 60
// steps, or all of them when it is finished.
void fill_job(wire::JobInfo::Builder job, const std::string& id, const std::string& state);

}  // namespace es::actors::test
