#pragma once
// Inbox: what the transport's thread hands to the command's thread, and a file descriptor to wait
// for it together with other things (signals).
//
// post() may be called from any thread; the rest belongs to one thread.
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "actors/gateway/zmq_transport.h"
#include "proto/frame.h"

namespace es::actors::esctl {

struct InboxItem {
  enum class Kind { kFrame, kHeadUp, kHeadDown, kLinkNews };
  Kind kind = Kind::kFrame;
  std::shared_ptr<const Frame> frame = nullptr;  // of a kFrame
  LinkNews news = {};                            // of a kLinkNews
};

class Inbox {
 public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void post(InboxItem item);
  // The oldest item, if there is one.
  std::optional<InboxItem> take();
  // Readable while there is an item.
  int fd() const { return fd_; }

 private:
  const int fd_;
  std::mutex mutex_;
  std::deque<InboxItem> items_;  // guarded by mutex_
};

}  // namespace es::actors::esctl
