#pragma once
// FakeHead: answers clients over a real transport with what a test says, and remembers what it was
// asked. Needs no cluster, no devices and no training.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/gateway/shell/zmq_transport.h"
#include "proto/messages.h"

namespace es::actors::test {

using Frames = std::vector<std::shared_ptr<const Frame>>;

class FakeHead {
 public:
  // Answers a request, on the transport's thread.
  using Handler = std::function<Frames(const std::shared_ptr<const Frame>& request)>;

  // Listens at an ipc endpoint. Requests without a handler are refused.
  explicit FakeHead(const std::string& endpoint);

  // Before the first client comes.
  void on(MessageType type, Handler handler);
  // The requests that came, in order.
  std::vector<std::shared_ptr<const Frame>> seen();

 private:
  void answer(const PeerId& from, const std::shared_ptr<const Frame>& request);

  std::mutex mutex_;  // guards what follows
  std::map<MessageType, Handler> handlers_;
  Frames seen_;
  std::unique_ptr<Transport> transport_;  // last: its thread uses the others
};

// The answer of type Answer to `request`.
template <class Answer, class Fill>
std::shared_ptr<const Frame> reply(const std::shared_ptr<const Frame>& request, Fill&& fill) {
  return Msg<Answer>::build({.job = request->head.job, .request = request->head.request},
                            std::forward<Fill>(fill))
      .frame();
}
std::shared_ptr<const Frame> done(const std::shared_ptr<const Frame>& request);
std::shared_ptr<const Frame> refusal(const std::shared_ptr<const Frame>& request, ErrorKind kind,
                                     const std::string& message);

// A job with two stages, an evaluation and a worker, in this state. It has made 30 of 60 steps, or
// all when it is finished.
void fill_job(wire::JobInfo::Builder job, const std::string& id, const std::string& state);

}  // namespace es::actors::test
